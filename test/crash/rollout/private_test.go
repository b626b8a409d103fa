package rollout

import (
	"testing"
	"unique"

	"github.com/loam-os/loam/test/judge"
)

// TestPrivateStepsNeedNoOrder walks small fleets with the private steps in every order,
// too. Whatever state comes of it, the private steps that are left lead to one that
// [scenario.run] has visited: it has overlooked none.
func TestPrivateStepsNeedNoOrder(t *testing.T) {
	judge.Long(t, "nothing: it tests the judges of TestEveryInterleaving, not the product")
	for _, s := range []scenario{
		fleetOf(2, 1, faults{delete: 2}),
		fleetOf(2, 1, faults{kill: 1, loss: 1}),
		fleetOf(2, 2, faults{loss: 1}).withFailures().withUpgrades(),
		fleetOf(2, 1, faults{postpone: 1, giveUp: 1}).withUpgrades(),
		fleetOf(2, 2, faults{off: 1, delete: 1}).withCanaries(1),
		fleetOf(2, 2, faults{pause: 1}).withDrains(),
		fleetOf(2, 2, faults{}).withZones(),
		fleetOf(3, 1, faults{}).withCanaries(1),
	} {
		t.Run(s.name, func(t *testing.T) {
			w, problem := s.run(1_000_000)
			if problem != "" {
				t.Fatal(problem)
			}

			first := s.begin()
			all := map[uint64]bool{w.key(first): true}
			for todo := []world{first}; len(todo) > 0; {
				at := todo[len(todo)-1]
				todo = todo[:len(todo)-1]

				settled := edge{to: at}
				for next, ok := s.private(at); ok; next, ok = s.private(settled.to) {
					settled = edge{settled.label + "\n" + next.label, next.to, false}
				}
				label := unique.Make("overlooked" + settled.label)
				if n, isNew := w.add(w.key(settled.to), -1, label); isNew {
					t.Fatal(w.trace(n, ""))
				}

				for _, e := range s.edges(at) {
					if key := w.key(e.to); !all[key] {
						all[key] = true
						todo = append(todo, e.to)
					}
				}
			}
			t.Logf("%d states, of which %d are visited", len(all), len(w.parent))
		})
	}
}
