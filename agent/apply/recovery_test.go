package apply

import (
	"testing"

	"github.com/loam-os/loam/agent/generation"
)

// TestDecideResumeAtEachCut has a row for each place at which a change can be
// cut off, in the order in which a change passes them.
func TestDecideResumeAtEachCut(t *testing.T) {
	const thisBoot, otherBoot = "this boot", "other boot"
	old := generation.Manifest{Number: 1, Digest: "0123456789abcdef"}
	next := generation.Manifest{Number: 2, Digest: "fedcba9876543210"}
	none := generation.Manifest{}

	first := generation.Journal{To: old.Name(), BootID: thisBoot}
	forward := generation.Journal{
		From:   old.Name(),
		To:     next.Name(),
		Good:   old.Name(),
		BootID: thisBoot,
	}

	revert := generation.Journal{
		From:   next.Name(),
		To:     old.Name(),
		Good:   old.Name(),
		Back:   "bad",
		BootID: thisBoot,
	}

	corrupt := generation.Journal{} // See generation.Reader.Journal.

	cut := func(j generation.Journal, current generation.Manifest) situation {
		return situation{journal: j, pending: true, current: current}
	}

	rebooted := func(s situation) situation {
		s.journal.BootID = otherBoot
		return s
	}

	unreadable := func(s situation) situation {
		s.current = none
		s.corrupt = true
		return s
	}

	for _, test := range []struct {
		name string
		situation
		want recovery
		lost bool
	}{
		{
			name:      "a new node has nothing to resume",
			situation: situation{},
			want:      recovery{step: stepNothing},
			lost:      true, // There is no generation to take its place, either.
		},
		{
			name:      "a node between two changes has nothing to resume",
			situation: situation{current: old},
			want:      recovery{step: stepNothing},
		},
		{
			name:      "a corrupt current generation without a change is lost",
			situation: situation{corrupt: true},
			want:      recovery{step: stepNothing},
			lost:      true,
		},

		{
			name:      "the first change is abandoned before the flip",
			situation: cut(first, none),
			want:      recovery{step: stepAbandon},
		},
		{
			name:      "the first change is completed after the flip",
			situation: cut(first, old),
			want:      recovery{step: stepComplete},
		},
		{
			name:      "the first change is replaced if its generation is corrupt",
			situation: unreadable(cut(first, none)),
			want:      recovery{step: stepReplace},
			lost:      true,
		},

		{
			name:      "a change is abandoned before the flip",
			situation: cut(forward, old),
			want:      recovery{step: stepAbandon},
		},
		{
			name:      "a change is abandoned before the flip in another boot",
			situation: rebooted(cut(forward, old)),
			want:      recovery{step: stepAbandon, rebooted: true},
		},
		{
			name:      "a change is completed after the flip",
			situation: cut(forward, next),
			want:      recovery{step: stepComplete},
		},
		{
			name:      "a change is completed after the flip in another boot",
			situation: rebooted(cut(forward, next)),
			want:      recovery{step: stepComplete, rebooted: true},
		},
		{
			name:      "a change is abandoned if the current link is gone",
			situation: cut(forward, none),
			want:      recovery{step: stepAbandon},
			lost:      true,
		},
		{
			name:      "a change is replaced if the current generation is corrupt",
			situation: unreadable(cut(forward, next)),
			want:      recovery{step: stepReplace},
			lost:      true,
		},

		{
			name:      "a revert activates before the flip",
			situation: cut(revert, next),
			want:      recovery{step: stepRevert, activate: true},
		},
		{
			name:      "a revert counts as begun in this boot if the node booted before the flip",
			situation: rebooted(cut(revert, next)),
			want:      recovery{step: stepRevert, activate: true},
		},
		{
			name:      "a revert goes on after the flip",
			situation: cut(revert, old),
			want:      recovery{step: stepRevert},
		},
		{
			name:      "a revert goes on after the flip in another boot",
			situation: rebooted(cut(revert, old)),
			want:      recovery{step: stepRevert, rebooted: true},
		},
		{
			name:      "a revert activates if the current link is gone",
			situation: cut(revert, none),
			want:      recovery{step: stepRevert, activate: true},
			lost:      true,
		},
		{
			name:      "a revert is replaced if the current generation is corrupt",
			situation: unreadable(cut(revert, old)),
			want:      recovery{step: stepReplace},
			lost:      true,
		},

		{
			name:      "a corrupt journal is abandoned with the generation that is current",
			situation: cut(corrupt, next),
			want:      recovery{step: stepAbandon, rebooted: true},
		},
		{
			name:      "a corrupt journal is abandoned without a current generation",
			situation: cut(corrupt, none),
			want:      recovery{step: stepAbandon, rebooted: true},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := decideResume(test.situation, thisBoot); got != test.want {
				t.Errorf("decided %+v, want %+v", got, test.want)
			}
			if got := test.situation.lost(); got != test.lost {
				t.Errorf("lost is %v, want %v", got, test.lost)
			}
		})
	}
}
