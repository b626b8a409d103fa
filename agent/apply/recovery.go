package apply

import (
	"github.com/loam-os/loam/agent/generation"
)

// situation is what a start finds on disk: the journal of a change that was cut
// off, if any, and the generation that the current link leads to.
type situation struct {
	journal generation.Journal

	// pending reports whether there is a journal. A journal that cannot be
	// decoded is pending and zero.
	pending bool

	// current is zero if there is no current generation or if it is corrupt.
	current generation.Manifest
	corrupt bool
}

// step is what ends the pending change.
type step string

const (
	// stepNothing: no change is pending.
	stepNothing step = "nothing"
	// stepAbandon: the change never became current. Remove what it placed.
	stepAbandon step = "abandon"
	// stepComplete: the change is current. Place its files, run its units.
	stepComplete step = "complete"
	// stepRevert: the node goes back to the generation the journal names.
	stepRevert step = "revert"
	// stepReplace: the current generation is corrupt, and another one must take
	// its place.
	stepReplace step = "replace"
)

// recovery is the decision of decideResume.
type recovery struct {
	step step

	// activate says that the current link does not lead to the change yet. Only
	// a revert that was cut off before its flip needs this.
	activate bool

	// rebooted says that the units of this boot have started with the files of
	// the current generation: systemd has read its /etc, but files elsewhere
	// may have changed since.
	rebooted bool
}

// decideResume decides how to end the change that was cut off.
//
//   - Without a journal there is nothing to do.
//   - A corrupt current generation is replaced first, whatever the change was.
//   - A corrupt journal names no change. The flip has told which generation the
//     node runs, so the rest is abandoned.
//   - A revert always goes on: there is no other way to go. If it was cut off
//     before the flip and the node has booted since, it booted with the
//     generation to leave, and the revert runs as if it had begun in this boot.
//   - A change to a new generation is completed after the flip and abandoned
//     before it.
func decideResume(s situation, bootID string) recovery {
	j := s.journal
	isCurrent := j.To == s.current.Name()
	rebooted := j.BootID != bootID

	switch {
	case !s.pending:
		return recovery{step: stepNothing}
	case s.corrupt:
		return recovery{step: stepReplace}
	case j.To == "":
		return recovery{step: stepAbandon, rebooted: rebooted}
	case j.Direction() == generation.Revert && !isCurrent:
		return recovery{step: stepRevert, activate: true}
	case j.Direction() == generation.Revert:
		return recovery{step: stepRevert, rebooted: rebooted}
	case isCurrent:
		return recovery{step: stepComplete, rebooted: rebooted}
	}

	return recovery{step: stepAbandon, rebooted: rebooted}
}

// lost reports whether the current generation is corrupt or its link is gone. A
// node has no current generation, too, when its first change was cut off before
// the flip; then nothing is lost.
func (s situation) lost() bool {
	beforeFirst := s.pending && s.journal.From == ""
	return s.corrupt || (s.current.Name() == "" && !beforeFirst)
}
