package upgrade

import (
	"errors"
	"testing"
)

// step runs the upgrader to where it waits for something else.
func step(t testing.TB, u *Upgrader, v Verdict, pack Packed) Op {
	t.Helper()
	op, err := u.Run(t.Context(), v, pack)
	if err != nil {
		t.Fatalf("%s: %v", op.Kind, err)
	}
	return op
}

func TestAnUpgradeThatIsGoodStays(t *testing.T) {
	p, disk := newPlant(t, "1.0.0", "2.0.0")
	one, two := p.releases[0], p.releases[1]
	r := newRecorder(disk, nil)
	u := p.upgrader(r, one.System)
	if op := step(t, u, Verdict{}, nil); op.Kind != Nothing {
		t.Fatalf("a node with nothing to do: %v", op)
	}
	if err := u.Begin(two.index, Wish{Ref: "r"}, Facts{}); err != nil {
		t.Fatal(err)
	}
	if op := step(t, u, Verdict{}, p.pack("2.0.0")); op.Kind != Reboot {
		t.Fatalf("after staging: %v", op)
	}
	runs, err := p.boot(r.Memory)
	if err != nil || runs != two.System {
		t.Fatalf("boots %v %v", runs, err)
	}
	u = p.upgrader(r, runs)
	if op := step(t, u, Verdict{}, nil); op.Kind != Observe {
		t.Fatalf("on trial: %v", op)
	}
	if op := step(t, u, Verdict{Word: Good}, nil); op.Kind != Nothing {
		t.Fatalf("after the verdict: %v", op)
	}
	if j, err := ReadJournal(r); j != nil || err != nil {
		t.Errorf("journal %v %v", j, err)
	}
	for range 5 {
		if runs, err = p.boot(r.Memory); err != nil || runs != two.System {
			t.Fatalf("later boots %v %v", runs, err)
		}
	}
	if err := u.Begin(two.index, Wish{}, Facts{}); !errors.As(err, new(*Refusal)) {
		t.Errorf("the same once more: %v", err)
	}
}

func TestAnUpgradeThatNeverComesUpFallsBackAndIsRemembered(t *testing.T) {
	p, disk := newPlant(t, "1.0.0", "2.0.0")
	one, two := p.releases[0], p.releases[1]
	r := newRecorder(disk, nil)
	u := p.upgrader(r, one.System)
	if err := u.Begin(two.index, Wish{}, Facts{}); err != nil {
		t.Fatal(err)
	}
	step(t, u, Verdict{}, p.pack("2.0.0"))
	for i := range Tries {
		if runs, err := p.boot(r.Memory); err != nil || runs != two.System {
			t.Fatalf("boot %d: %v %v", i, runs, err)
		}
	}
	runs, err := p.boot(r.Memory)
	if err != nil || runs != one.System {
		t.Fatalf("after %d boots that failed: %v %v", Tries, runs, err)
	}
	u = p.upgrader(r, runs)
	if op := step(t, u, Verdict{}, nil); op.Kind != Nothing {
		t.Errorf("after the fallback: %v", op)
	}
	failed, err := Failures(r)
	if err != nil || len(failed) != 1 || (System{failed[0].Version, failed[0].RootHash}) != two.System {
		t.Errorf("remembers %v %v", failed, err)
	}
	err = u.Begin(two.index, Wish{}, Facts{})
	if refusal, is := errors.AsType[*Refusal](err); !is || refusal.Code != CodeFailed {
		t.Errorf("the same once more: %v", err)
	}
	if err := u.Begin(two.index, Wish{Again: true}, Facts{}); err != nil {
		t.Errorf("as a person wants it: %v", err)
	}
}
