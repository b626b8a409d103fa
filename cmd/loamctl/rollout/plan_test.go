package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/turns"
)

func TestAPlanSaysWhatStops(t *testing.T) {
	goesOn := turns.New()
	goesOn.State = turns.Running
	paused := goesOn.Pause("lunch")
	halted := goesOn
	halted.Halted = "node-3: no"
	both := turns.New().Pause("lunch")
	both.Systems = map[string]turns.Rollout{
		"2b2b": {Version: "2.0.0", Halted: "node-4: no"},
		"3c3c": {Version: "3.0.0"},
	}

	const resume = "`loamctl rollout resume edge` lets it go on"
	for _, test := range []struct {
		name   string
		ledger turns.Ledger
		want   []string
	}{
		{"it goes on", goesOn, nil},
		{"it is paused", paused, []string{"paused: lunch", resume}},
		{"a configuration is halted", halted, []string{
			"the configuration is halted: node-3: no", resume,
		}},
		{"it is paused, and a system halted", both, []string{
			"paused: lunch", "version 2.0.0 is halted: node-4: no", resume,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, stops("edge", test.ledger)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
