package rollout

import (
	"testing"

	"github.com/loam-os/loam/agent/turns"
)

// TestAPauseOverAPauseSaysWhatItReplaces pauses a pool whose ledger is in each state.
func TestAPauseOverAPauseSaysWhatItReplaces(t *testing.T) {
	for _, tt := range []struct {
		name, why, before string
		state             turns.State
	}{
		{"running", "", "", turns.Running},
		{"paused", "the weekend", "the weekend", turns.Paused},
		{"paused by hand", "", "without a reason", turns.Paused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := turns.New()
			l.State = tt.state
			l.Why = tt.why
			api := fakeAPI{leasesPath + "/loam-rollout-edge": object(t, l.Annotations(nil))}
			l, before, err := Rollout{API: api, Pool: "edge"}.Pause(t.Context(), "lunch")
			if err != nil || before != tt.before || l.State != turns.Paused || l.Why != "lunch" {
				t.Errorf("before %q, %+v, %v", before, l, err)
			}
		})
	}
}
