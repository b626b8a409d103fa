package apply_test

import (
	"context"
	"testing"
)

// takingAlong is a systemd that has stopped a unit which is bound to another,
// and restarts only the other.
type takingAlong struct {
	*fakeSystemd
	bound string
}

func (f takingAlong) Restart(ctx context.Context, name string) error {
	if err := f.Stop(ctx, f.bound); err != nil {
		return err
	}
	return f.fakeSystemd.Restart(ctx, name)
}

func TestWhatSystemdTakesAlongIsUpAgain(t *testing.T) {
	n, fake := fakeNode(t)
	n.units = takingAlong{fake, "part.service"}
	e := n.executor(t, nil)
	part := ownUnit("part.service", "[Unit]\nPartOf=whole.service\n"+sleeper)
	mustApply(t, e, unitsOf(ownUnit("whole.service", sleeper), part))
	accept(t, e)
	mustApply(t, e, unitsOf(ownUnit("whole.service", sleeper+"# other\n"), part))

	if s := show(t, n, part.Name); !s.Running() {
		t.Errorf("it is %+v", s)
	}
}
