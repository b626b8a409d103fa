package apply_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/executor"
	"github.com/loam-os/loam/test/units"
)

// both is a configuration with a unit that was there before, and one of that
// text.
func both(text string) config.Desired {
	return unitsOf(ownUnit("a.service", sleeper), ownUnit("new.service", text))
}

// owes fails the test unless the node owes these units a start.
func owes(t *testing.T, e *apply.Executor, want ...string) {
	t.Helper()
	if got, err := e.Owed(); err != nil || !slices.Equal(got, want) {
		t.Errorf("owed %v %v, not %v", got, err, want)
	}
}

// TestUnitThatWasNeverWellTakesNothingBack, and gets another chance.
func TestUnitThatWasNeverWellTakesNothingBack(t *testing.T) {
	n, fake := fakeNode(t)
	e := n.executor(t, nil)
	mustApply(t, e, unitsOf(ownUnit("a.service", sleeper)))
	accept(t, e)
	owes(t, e)

	if _, err := e.Apply(t.Context(), request(both(crasher))); !errors.As(err,
		new(*unit.JobError)) {
		t.Errorf("a unit that fails: %v", err)
	}

	v := verdict(t, e)
	if len(v.Unwell) != 1 || v.Word != health.Good || v.Unwell[0].Unit != "new.service" ||
		!strings.Contains(v.Unwell[0].How, "exit code 3") {
		t.Errorf("verdict: %+v", v)
	}

	owes(t, e, "new.service")
	history, err := apply.History(e.Config().State.Root().FS())
	if err != nil || history[len(history)-1].Outcome != apply.Applied ||
		!strings.Contains(history[len(history)-1].Reason, "new.service") {
		t.Errorf("history: %+v %v", history, err)
	}

	// Another agent knows, and so does one after a restart of the machine.
	e = executor.With(e, func(c *apply.Config) { c.BootID = "boot-2" })
	if _, err := e.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}

	left, err := e.Retry(t.Context())
	if !slices.Equal(left, []string{"new.service"}) || !errors.As(err, new(*unit.JobError)) {
		t.Errorf("tried again without a reason to succeed: %v %v", left, err)
	}

	// The unit gets what it needs.
	fake.Run = func(string, string) error { return nil }
	starts := fake.Starts()

	if left, err := e.Retry(t.Context()); len(left) > 0 || err != nil ||
		!show(t, n, "new.service").Started() {
		t.Errorf("tried again: %v %v", left, err)
	}

	if fake.Starts() != starts+1 || !absent(n, "var/lib/loam/owed.json") {
		t.Errorf("%d starts", fake.Starts()-starts)
	}

	owes(t, n.executor(t, nil))
}

// A start that hangs keeps the node from nothing else, and is not forgotten.
func TestSlowStartIsStillOwed(t *testing.T) {
	n, fake := fakeNode(t)
	e := n.executor(t, nil)
	_, err := e.Apply(t.Context(), request(both(crasher)))
	if err == nil {
		t.Fatal("a unit that fails started")
	}

	fake.Around = func(ctx context.Context, _ units.Job, _ func() error) error {
		<-ctx.Done()
		return fmt.Errorf("waiting for the job: %w", ctx.Err())
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		left, err := e.Retry(t.Context())
		if !slices.Equal(left, []string{"new.service"}) || err != nil {
			t.Errorf("owed %v, %v", left, err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("waited %s", took)
		}
	})

	owes(t, n.executor(t, nil), "new.service")
}

func TestUnitThatComesUpByItselfIsOwedNothing(t *testing.T) {
	n, fake := fakeNode(t)
	e := n.executor(t, nil)
	if _, err := e.Apply(t.Context(), request(both(crasher))); err == nil {
		t.Fatal("a unit that fails started")
	}

	fake.Set("new.service", unit.State{Active: "active"})
	starts := fake.Starts()
	if left, err := e.Retry(t.Context()); len(left) > 0 || err != nil || fake.Starts() != starts {
		t.Errorf("tried again: %v %v, %d starts", left, err, fake.Starts()-starts)
	}

	owes(t, e)
}

func TestNextConfigurationOwesNothingOfTheLast(t *testing.T) {
	tests := []struct {
		name string
		next config.Desired
		want []string
	}{
		{"with the unit repaired", both(sleeper), nil},
		{"with the unit stopped", unitsOf(ownUnit("a.service", sleeper), config.Unit{
			Name:    "new.service",
			Content: text(crasher),
			Command: config.CommandStop,
		}), nil},
		{"without the unit", unitsOf(ownUnit("a.service", sleeper)), nil},
		{
			"with the unit as it is",
			unitsOf(ownUnit("a.service", sleeper+"# other\n"), ownUnit("new.service", crasher)),
			[]string{"new.service"},
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, _ := fakeNode(t)
			e := n.executor(t, nil)
			if _, err := e.Apply(t.Context(), request(both(crasher))); err == nil {
				t.Fatal("a unit that fails started")
			}

			owes(t, e, "new.service")
			_, err := e.Apply(t.Context(), request(tt.next))
			if failed := errors.As(err, new(*unit.JobError)); failed != (tt.want != nil) {
				t.Errorf("apply: %v", err)
			}

			owes(t, e, tt.want...)
		})
	}
}

// TestEssentialUnitThatFailsIsTakenBack, although the unit is new.
func TestEssentialUnitThatFailsIsTakenBack(t *testing.T) {
	for _, tt := range []struct {
		name, kubelet, needed string
	}{
		{"the kubelet itself", crasher, sleeper},
		{"what it requires", "[Unit]\nRequires=needed.service\n" + sleeper, crasher},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, _ := fakeNode(t)
			e := n.executor(t, nil)
			before := mustApply(t, e, unitsOf(ownUnit("a.service", sleeper)))
			accept(t, e)

			_, err := e.Apply(t.Context(), request(unitsOf(
				ownUnit("a.service", sleeper), ownUnit("kubelet.service",
					tt.kubelet), ownUnit("needed.service", tt.needed),
			)))
			if err == nil {
				t.Fatal("a unit that fails started")
			}

			v := verdict(t, e)
			if v.Word != health.Bad {
				t.Fatalf("verdict: %+v", v)
			}

			if m, _, err := e.Current(); err != nil || m.Name() != before {
				t.Errorf("back at %s: %v", m.Name(), err)
			}

			owes(t, e)
		})
	}
}

// TestUnitsThatWereWellBeforeBothChangesCount has the second change come while
// the first is watched.
func TestUnitsThatWereWellBeforeBothChangesCount(t *testing.T) {
	n, _ := fakeNode(t)
	e := n.executor(t, nil)
	before := mustApply(t, e, unitsOf(ownUnit("a.service", sleeper)))
	accept(t, e)
	e = executor.With(e, func(c *apply.Config) {
		c.Steady = time.Second // of a clock that stands still
	})
	mustApply(t, e, unitsOf(ownUnit("a.service", sleeper), ownUnit("new.service", sleeper)))

	if _, err := e.Apply(t.Context(),
		request(unitsOf(ownUnit("a.service", crasher),
			ownUnit("new.service", crasher)))); err == nil {
		t.Fatal("a unit that fails started")
	}

	v := verdict(t, e)
	if v.Word != health.Bad || !strings.Contains(v.Reason, "a.service") {
		t.Fatalf("verdict: %+v", v)
	}

	if m, _, err := e.Current(); err != nil || m.Name() != before {
		t.Errorf("back at %s: %v", m.Name(), err)
	}
}

// TestUnitsThatTheFirstOfTwoChangesBrokeCount has the second change come before
// the first was judged: what was well is what was well before both.
func TestUnitsThatTheFirstOfTwoChangesBrokeCount(t *testing.T) {
	journald := config.Unit{
		Name:    "systemd-journald.service",
		DropIns: []config.DropIn{{Name: "10-a.conf", Content: "[Service]\n"}},
	}

	for _, tt := range []struct {
		name          string
		first, second config.Desired
		// breaks has the unit of the second change down after the first.
		breaks bool
		want   health.Word
	}{
		{
			name:   "a unit that the first left out and the second brings back",
			first:  unitsOf(ownUnit("b.service", sleeper)),
			second: unitsOf(ownUnit("b.service", sleeper), ownUnit("a.service", crasher)),
			want:   health.Bad,
		},
		{
			name:   "a unit that the first brought and the second changes",
			first:  unitsOf(ownUnit("a.service", sleeper), ownUnit("b.service", sleeper)),
			second: unitsOf(ownUnit("a.service", sleeper), ownUnit("b.service", crasher)),
			want:   health.Good,
		},
		{
			name:   "a unit of the image that only the second lists",
			first:  unitsOf(ownUnit("a.service", sleeper), ownUnit("b.service", sleeper)),
			second: unitsOf(ownUnit("a.service", sleeper), ownUnit("b.service", sleeper), journald),
			breaks: true,
			want:   health.Bad,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, fake := fakeNode(t)
			e := n.executor(t, nil)
			before := mustApply(t, e, unitsOf(ownUnit("a.service", sleeper)))
			accept(t, e)
			mustApply(t, e, tt.first)

			_, err := e.Apply(t.Context(), request(tt.second))
			if err != nil && !errors.As(err, new(*unit.JobError)) {
				t.Fatal(err)
			}

			if tt.breaks {
				fake.Set("systemd-journald.service", unit.State{
					Active: "failed",
					Result: "exit-code",
				})
			}

			if v := verdict(t, e); v.Word != tt.want {
				t.Fatalf("verdict: %+v", v)
			}

			m, _, err := e.Current()
			if back := m.Name() == before; err != nil || back != (tt.want == health.Bad) {
				t.Errorf("at %s: %v", m.Name(), err)
			}
		})
	}
}

func TestOwedThatCannotBeReadIsNothing(t *testing.T) {
	n, _ := fakeNode(t)
	e := n.executor(t, nil)
	mustApply(t, e, unitsOf(ownUnit("a.service", sleeper)))
	accept(t, e)

	err := os.WriteFile(n.root.Name()+"/var/lib/loam/owed.json", []byte("torn"), 0o644)
	if err != nil {
		t.Fatal(err)
	}

	owes(t, n.executor(t, nil))
}

// TestAFailedStartIsOwedWhereverTheAgentIsKilled: a done action is not asked
// for again, so its failure must be on disk before.
func TestAFailedStartIsOwedWhereverTheAgentIsKilled(t *testing.T) {
	changed := 0
	for step, cut := 0, true; cut; step++ {
		cut = false
		n, _ := fakeNode(t)
		e := n.executor(t, nil)
		before := mustApply(t, e, unitsOf(ownUnit("a.service", sleeper)))
		accept(t, e)

		hook := cutAt(step)
		e = n.executor(t, func(s durable.Step) error {
			err := hook(s)
			cut = cut || err != nil
			return err
		})
		if _, err := e.Apply(t.Context(), request(both(crasher))); err == nil {
			t.Fatal("a unit that fails started")
		}

		e = n.executor(t, nil)
		if _, err := e.Resume(t.Context()); err != nil && !errors.As(err, new(*unit.JobError)) {
			t.Fatalf("killed before step %d: %v", step, err)
		}

		m, _, err := e.Current()
		if err != nil {
			t.Fatal(err)
		}
		if m.Name() == before {
			continue
		}

		changed++
		got, err := n.executor(t, nil).Owed()
		if err != nil || !slices.Equal(got, []string{"new.service"}) {
			t.Errorf("killed before step %d: owed %v, %v", step, got, err)
		}
	}

	if changed < 2 {
		t.Errorf("%d kills after the change began", changed)
	}
}
