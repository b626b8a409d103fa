package apply_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/test/executor"
)

// goodNode is a node whose generation good has proven itself.
func goodNode(t *testing.T) (n node, e *apply.Executor, good string) {
	t.Helper()
	n, _ = fakeNode(t)
	e = n.executor(t, nil)
	good = mustApply(t, e, withUnit("good", sleeper))
	accept(t, e)

	return n, e, good
}

// rollsBackTo rolls back without naming a generation.
func rollsBackTo(t *testing.T, n node, e *apply.Executor, good string) {
	t.Helper()
	if m, err := e.Rollback(t.Context(), ""); err != nil || m.Name() != good {
		t.Errorf("rolled back to %s: %v", m.Name(), err)
	}
	isAt(t, n, e, good, "good")
}

func TestRollbackGoesToTheNewestThatProvedItself(t *testing.T) {
	n, e, _ := goodNode(t)
	mustApply(t, e, withUnit("newer", sleeper))
	accept(t, e)
	good := mustApply(t, e, withUnit("good", sleeper))
	accept(t, e)

	if _, err := e.Apply(t.Context(), request(withUnit("bad", crasher))); err == nil {
		t.Fatal("a unit that fails started")
	}

	mustApply(t, e, withUnit("replaced", sleeper)) // well, and yet for no time
	mustApply(t, e, withUnit("fixed", sleeper))
	accept(t, e)
	rollsBackTo(t, n, e, good)
}

func TestRollbackDuringAChangeGoesToWhatWasBeforeAllOfThem(t *testing.T) {
	n, e, good := goodNode(t)
	mustApply(t, e, withUnit("2", sleeper))
	mustApply(t, e, withUnit("3", sleeper))
	rollsBackTo(t, n, e, good)
}

// TestGenerationsDoNotPileUp: five stay after a verdict, and the good and
// current ones; before it, sixteen.
func TestGenerationsDoNotPileUp(t *testing.T) {
	n, e, good := goodNode(t)
	for _, end := range []string{"replaced", "reverted"} {
		for i := range 40 {
			mustApply(t, e, withUnit(fmt.Sprint(end, i), sleeper))
			if err := e.Tidy(); err != nil {
				t.Fatal(err)
			}
			if got := generations(t, e); len(got) > 16 {
				t.Fatalf("before a verdict there are %d: %v", len(got), got)
			}
			if end == "replaced" && i < 39 {
				continue
			}

			_, err := e.Conclude(t.Context(), health.Verdict{
				Word:   health.Bad,
				Reason: "of the test",
			})
			if err != nil {
				t.Fatal(err)
			}
		}

		if got := generations(t, e); len(got) > 7 {
			t.Errorf("after 40 were %s there are %d: %v", end, len(got), got)
		}
		isAt(t, n, e, good, "good")
	}
}

func TestTryWithNothingBeforeIsRefused(t *testing.T) {
	n, _ := fakeNode(t)
	steps := 0
	e := n.executor(t, func(durable.Step) error { steps++; return nil })
	r := request(withUnit("1", sleeper))
	r.Try = time.Minute

	if _, err := e.Apply(t.Context(), r); !errors.Is(err, apply.ErrNothingBefore) || steps > 0 {
		t.Errorf("%v, %d durable steps", err, steps)
	}

	mustApply(t, e, withUnit("1", sleeper)) // has not proven itself yet
	if _, err := e.Apply(t.Context(), r); !errors.Is(err, apply.ErrNothingBefore) {
		t.Errorf("while the first is watched: %v", err)
	}
}

// TestTryOfAnotherBootEnds, where /init has not ended it already: the deadline
// comes from a clock that starts at zero with each boot.
func TestTryOfAnotherBootEnds(t *testing.T) {
	n, _ := fakeNode(t)
	n.clock.Store(240 * time.Hour)
	e := n.executor(t, nil)
	good := mustApply(t, e, withUnit("1", sleeper))
	accept(t, e)
	r := request(withUnit("2", sleeper))
	r.Try = 5 * time.Minute

	if _, err := e.Apply(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if v, err := e.Judge(t.Context()); err != nil || v.Word != health.Confirm {
		t.Errorf("in its own boot: %+v %v", v, err)
	}

	n.clock.Store(time.Minute)
	e = executor.With(e, func(c *apply.Config) { c.BootID = "boot-2" })
	goOn(t, e)
	isAt(t, n, e, good, "1")
}

// TestTryOfAnotherClockEnds is a trial that an older agent began in this boot.
// Its clock included the time in which the machine was suspended.
func TestTryOfAnotherClockEnds(t *testing.T) {
	n, _ := fakeNode(t)
	n.clock.Store(240 * time.Hour)
	e := n.executor(t, nil)
	good := mustApply(t, e, withUnit("1", sleeper))
	accept(t, e)
	r := request(withUnit("2", sleeper))
	r.Try = 5 * time.Minute

	if _, err := e.Apply(t.Context(), r); err != nil {
		t.Fatal(err)
	}

	n.clock.Store(time.Minute)
	v, err := e.Judge(t.Context())
	if err != nil || v.Word != health.Bad {
		t.Errorf("verdict %+v %v", v, err)
	}
	if _, err := e.Conclude(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	isAt(t, n, e, good, "1")
}

// heldNode is a node that went back from generation bad to generation good.
func heldNode(t *testing.T) (n node, e *apply.Executor, good, bad string) {
	t.Helper()
	n, e, good = goodNode(t)
	m, err := e.Apply(t.Context(), request(withUnit("bad", crasher)))
	if err == nil {
		t.Fatal("a unit that fails started")
	}
	_, err = e.Conclude(t.Context(), health.Verdict{Word: health.Bad, Reason: "of the test"})
	if err != nil {
		t.Fatal(err)
	}
	isAt(t, n, e, good, "good")
	return n, e, good, m.Name()
}

func TestRollbackRefusesWhatFailed(t *testing.T) {
	n, e, good, bad := heldNode(t)
	for _, name := range []string{bad, "2"} {
		_, err := e.Rollback(t.Context(), name)
		want := "roll back: generation " + bad + " is held: of the test\n" +
			"hint: `loam rollback 2 --held` tries it again, and takes it back if the node is worse"
		if err == nil || hint.Text(err) != want {
			t.Errorf("error %v, want %s", err, want)
		}
		isAt(t, n, e, good, "good")
	}
}

func TestRollbackTakesWhatAnOperatorHeld(t *testing.T) {
	n, e, good := goodNode(t)
	newer := mustApply(t, e, withUnit("newer", sleeper))
	accept(t, e)
	rollsBackTo(t, n, e, good)
	if m, err := e.Rollback(t.Context(), newer); err != nil || m.Name() != newer {
		t.Errorf("rolled back to %s: %v", m.Name(), err)
	}
}

// TestRollbackTakesWhatAnOperatorReplaced: the source's configuration is held
// while an operator has applied another, though nothing is wrong with it.
func TestRollbackTakesWhatAnOperatorReplaced(t *testing.T) {
	n, e, good := goodNode(t)
	mustApply(t, e, withUnit("newer", sleeper))
	accept(t, e)
	_, digest, _ := strings.Cut(good, "-")
	if err := e.Hold(apply.Held{Digest: digest, Why: "replaced", Operator: true}); err != nil {
		t.Fatal(err)
	}

	rollsBackTo(t, n, e, good)

	if held, is, err := e.Held(digest); is || err != nil {
		t.Errorf("what runs is held: %+v %v", held, err)
	}
}

func TestReapplyRefusesWhatIsNotHeld(t *testing.T) {
	n, e, good, _ := heldNode(t)
	newer := mustApply(t, e, withUnit("newer", sleeper))
	accept(t, e)
	if _, err := e.Reapply(t.Context(), good); err == nil {
		t.Error("a generation that is not held was applied")
	}
	isAt(t, n, e, newer, "newer")
}

func TestReapplyIsWatchedAndTakenBack(t *testing.T) {
	n, e, good, bad := heldNode(t)
	if m, err := e.Reapply(t.Context(), "2"); err == nil || m.Name() != bad {
		t.Errorf("at %s: %v", m.Name(), err)
	}

	pending, is, err := e.Pending()
	if err != nil || !is || !pending.Watched || pending.To != bad || pending.Good != good {
		t.Errorf("pending: %+v %t %v", pending, is, err)
	}

	v, err := e.Judge(t.Context())
	if err != nil || v.Word != health.Bad {
		t.Fatalf("verdict %+v %v", v, err)
	}
	if _, err := e.Conclude(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	isAt(t, n, e, good, "good")
	held, err := apply.HeldList(e.Config().State.Root().FS())
	if err != nil || len(held) != 1 || held[0].Unit != v.Unit || v.Unit == "" {
		t.Errorf("held: %+v %v, want unit %q", held, err, v.Unit)
	}
}

func TestReapplyThatProvesItselfIsNoLongerHeld(t *testing.T) {
	n, e, good := goodNode(t)
	newer := mustApply(t, e, withUnit("newer", sleeper))
	_, err := e.Conclude(t.Context(), health.Verdict{Word: health.Bad, Reason: "of the test"})
	if err != nil {
		t.Fatal(err)
	}
	isAt(t, n, e, good, "good")

	if _, err := e.Reapply(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	accept(t, e)
	isAt(t, n, e, newer, "newer")
	if held, err := apply.HeldList(e.Config().State.Root().FS()); err != nil || len(held) > 0 {
		t.Errorf("held: %+v %v", held, err)
	}
}

func TestHistoryHasTheTimeThatPassedAlthoughTheClockWasSet(t *testing.T) {
	n, e, _ := goodNode(t)
	clock := time.Unix(0, 0)
	e = executor.With(e, func(c *apply.Config) { c.Now = func() time.Time { return clock } })
	mustApply(t, e, withUnit("newer", sleeper))
	n.clock.Store(time.Hour + 12*time.Second)
	clock = time.Unix(1<<31, 0)
	accept(t, e)
	records, err := apply.History(e.Config().State.Root().FS())
	if err != nil || len(records) != 2 || records[1].Took != 12*time.Second {
		t.Errorf("%+v %v", records, err)
	}
}

func TestHistoryHasTheWallClocksTimeIfAnotherClockBeganTheChange(t *testing.T) {
	n, e, _ := goodNode(t)
	clock := time.Unix(0, 0)
	e = executor.With(e, func(c *apply.Config) { c.Now = func() time.Time { return clock } })
	mustApply(t, e, withUnit("newer", sleeper))
	n.clock.Store(time.Minute)
	clock = time.Unix(12, 0)
	accept(t, e)
	records, err := apply.History(e.Config().State.Root().FS())
	if err != nil || len(records) != 2 || records[1].Took != 12*time.Second {
		t.Errorf("%+v %v", records, err)
	}
}

// TestReapplyThatFailsKeepsTheGeneration, whichever of the durable steps fails.
func TestReapplyThatFailsKeepsTheGeneration(t *testing.T) {
	failed := true
	for fails := 1; failed; fails++ {
		n, _, _, bad := heldNode(t)
		steps := 0
		e := n.executor(t, func(durable.Step) error {
			steps++
			if steps == fails {
				return errors.New("disk error")
			}
			return nil
		})
		_, _ = e.Reapply(t.Context(), bad)
		failed = steps >= fails

		e = n.executor(t, nil)
		_, _ = e.Resume(t.Context()) // A unit of it fails.
		if !slices.Contains(generations(t, e), bad) {
			t.Errorf("after step %d failed, the node has %v", fails, generations(t, e))
		}
	}
}
