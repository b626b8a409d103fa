package apply_test

import (
	"context"
	"testing"

	"github.com/loam-os/loam/test/units"
)

// TestBoundUnitsAreUpAgainAfterARestart: systemd has stopped a unit which is bound to
// another, and restarts only the other.
func TestBoundUnitsAreUpAgainAfterARestart(t *testing.T) {
	n, fake := fakeNode(t)
	e := n.executor(t, nil)
	part := ownUnit("part.service", "[Unit]\nPartOf=whole.service\n"+sleeper)
	fake.Around = func(ctx context.Context, job units.Job, do func() error) error {
		if job.Verb == "restart" {
			if err := fake.Stop(ctx, part.Name); err != nil {
				return err
			}
		}
		return do()
	}
	mustApply(t, e, unitsOf(ownUnit("whole.service", sleeper), part))
	accept(t, e)
	mustApply(t, e, unitsOf(ownUnit("whole.service", sleeper+"# other\n"), part))

	if s := show(t, n, part.Name); !s.Running() {
		t.Errorf("it is %+v", s)
	}
}
