package config_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/test/power"
)

// scenario is something that an agent does and that a crash interrupts.
type scenario struct {
	name string
	// before is applied first and is good.
	before []config.Desired
	acts   []act
	// next is what the node has to take afterwards.
	next config.Desired
}

// act is one call of the agent. While it is under way, a crash may leave any of
// during; once it has returned, one of after, and if it is the power that was
// cut, one of afterPower (nil: after).
type act struct {
	do                        func(ctx context.Context, e *apply.Executor) error
	during, after, afterPower []config.Desired
}

// playback is a scenario that has been played once.
type playback struct {
	scenario
	power.Recording
	image *os.Root
	boots int
	// ends are the op at which each act has returned.
	ends []int
}

func (s scenario) record(t testing.TB, image *os.Root) playback {
	t.Helper()
	n := newCrashNode(t, image)
	e := n.executor()
	for _, d := range s.before {
		if err := applyGood(e, d); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}

	base, err := power.Read(n.root)
	if err != nil {
		t.Fatal(err)
	}

	recorder := n.record(base)
	e = n.executor()
	r := playback{scenario: s, image: image, boots: n.boots}
	for i, a := range s.acts {
		if err := a.do(t.Context(), e); err != nil {
			t.Fatalf("%s, act %d: %v", s.name, i, err)
		}
		r.ends = append(r.ends, recorder.Len())
	}

	r.Recording, err = recorder.Recording()
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}

	return r
}

// allowed is what a crash before op k may leave.
func (r playback) allowed(k int, cut bool) []config.Desired {
	had := []config.Desired{nothing}
	if len(r.before) > 0 {
		had = r.before[len(r.before)-1:]
	}

	for i, a := range r.acts {
		start := 0
		if i > 0 {
			start = r.ends[i-1]
		}
		switch {
		case k == start:
			return had
		case k < r.ends[i]:
			return a.during
		}
		had = a.after
		if cut && a.afterPower != nil {
			had = a.afterPower
		}
	}

	return had
}

// restart makes a node of what a crash has left, up to the start of the agent.
// after is called with it before it boots.
func (r playback) restart(
	c crash,
	left *power.Disk,
	units crashUnits,
	boots int,
	after func(*crashNode),
) (*crashNode, func(), error) {
	dir, err := os.MkdirTemp("/dev/shm", "loam-crash-")
	if err != nil {
		dir, err = os.MkdirTemp("", "loam-crash-")
	}
	if err != nil {
		return nil, nil, err
	}

	end := func() { os.RemoveAll(dir) }
	if err := left.Write(dir); err != nil {
		return nil, end, err
	}

	n, err := openCrashNode(dir, r.image)
	if err != nil {
		return nil, end, err
	}

	end = func() { n.close(); os.RemoveAll(dir) }
	n.boots = boots
	if after != nil {
		after(n)
	}
	if c.kill {
		n.systemd.restore(units)
		return n, end, nil
	}

	return n, end, n.powerOn()
}

// try plays one point: nil if the node is well afterwards.
func (r playback) try(o *oracle, p point) error {
	n, end, err := r.restart(p.crash, p.disk, p.units, r.boots, nil)
	if end != nil {
		defer end()
	}
	if err == nil {
		err = o.check(n, r.allowed(p.k, !p.kill), r.next)
	}
	if err != nil {
		return fmt.Errorf("%s, cut before op %d of %d (%s), %s: %w",
			r.name, p.k, len(r.Ops), r.Ops[p.k].Step, p.crash, err)
	}
	return nil
}
