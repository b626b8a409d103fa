package loop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/status"
)

func TestBadChangeIsTakenBackAndNotTriedAgain(t *testing.T) {
	w := newFakeNode()
	w.text, w.watched = "one", true
	run(t, w, func(wait func()) {
		w.verdict = health.Verdict{Word: health.Good}
		w.units <- "a.service"
		wait()
		good := w.current.Name()
		w.text = "two"
		w.source <- struct{}{}
		wait()
		bad := w.current.Name()
		if s := w.last(); s.Change == nil || s.Change.Good != good {
			t.Errorf("while it is watched: %+v", s)
		}

		w.verdict = health.Verdict{
			Word:   health.Bad,
			Unit:   "a.service",
			Reason: "unit a.service failed",
		}
		w.units <- "a.service"
		wait()
		s := w.last()
		if s.Generation != good || s.Phase != status.Failed || s.Error == nil ||
			!strings.Contains(s.Error.Problem, "unit a.service failed") ||
			!strings.HasPrefix(s.Error.Hint, "`loam why` shows its log; ") || s.Change != nil ||
			s.RevertedFrom != bad {
			t.Errorf("after it was taken back: %+v, error %+v", s, s.Error)
		}
		want := status.TakenBack{Generation: bad, Why: "unit a.service failed"}
		if s.TakenBack == nil || *s.TakenBack != want {
			t.Errorf("taken back: %+v, want %+v", s.TakenBack, want)
		}

		w.source <- struct{}{}
		wait()
		if len(w.applied) != 2 {
			t.Errorf("tried again: %d applies", len(w.applied))
		}

		// Asked for on purpose, it is tried again.
		answered := make(chan control.Outcome)
		go func() {
			o, err := w.requests.Apply(context.Background(), control.ApplyRequest{})
			if err != nil {
				t.Error(err)
			}
			answered <- o
		}()
		wait()
		if len(w.applied) != 3 {
			t.Errorf("not tried although a person asked: %d applies", len(w.applied))
		}

		w.verdict = health.Verdict{Word: health.Good}
		w.units <- "a.service"
		if o := <-answered; o.Result != control.Applied || o.Generation != w.current.Name() {
			t.Errorf("outcome %+v", o)
		}

		wait()
		if s := w.last(); s.Phase != status.Applied || s.Error != nil || s.TakenBack != nil {
			t.Errorf("in the end: %+v, error %+v", s, s.Error)
		}

		w.sample, _ = w.queries.Take(context.Background())
	})

	want := []health.Word{health.Good, health.Bad, health.Good}
	if !slices.Equal(w.concluded, want) {
		t.Errorf("concluded %v", w.concluded)
	}

	counts := map[string]int{"applied": 2, "reverted": 1}
	if !maps.Equal(w.sample.Counters.Applies, counts) {
		t.Errorf("counted %v", w.sample.Counters.Applies)
	}
}

func TestVerdictComesAlthoughTheAgentWasBusy(t *testing.T) {
	w := newFakeNode()
	w.text, w.watched = "one", true
	w.verdict = health.Verdict{Word: health.Wait, Next: 10 * time.Second}
	run(t, w, func(wait func()) {
		w.holdRepair = make(chan struct{})
		w.drift <- []string{"/etc/a"}
		w.units <- "a.service"
		wait() // It looks now, and cannot judge.
		close(w.holdRepair)
		wait()
		w.verdict = health.Verdict{Word: health.Good}
		w.pass(10 * time.Second)
		wait()
	})

	if want := []health.Word{health.Good}; !slices.Equal(w.concluded, want) {
		t.Errorf("concluded %v", w.concluded)
	}
}

func TestTryIsConfirmed(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	run(t, w, func(wait func()) {
		w.watched = true
		w.verdict = health.Verdict{Word: health.Confirm, Next: time.Hour}
		o, err := w.requests.Apply(context.Background(), control.ApplyRequest{
			Name:     "f",
			Document: "two",
			Try:      time.Minute,
		})
		if err != nil || o.Result != control.Trying || o.Until.IsZero() {
			t.Errorf("%+v %v", o, err)
		}

		// The source does not come in between, nor does another person.
		w.text = "three"
		w.source <- struct{}{}
		wait()
		if _, err := w.requests.Apply(context.Background(), control.ApplyRequest{
			Name:     "f",
			Document: "four",
		}); !errors.Is(err, control.ErrBusy) {
			t.Errorf("another apply: %v", err)
		}
		if len(w.applied) != 2 {
			t.Errorf("%d applies", len(w.applied))
		}

		w.verdict = health.Verdict{Word: health.Good}
		if o, err := w.requests.Confirm(context.Background()); err != nil ||
			o.Result != control.Confirmed {
			t.Errorf("%+v %v", o, err)
		}

		wait()
		if len(w.applied) != 3 {
			t.Errorf("the source waits for ever: %d applies", len(w.applied))
		}
	})
}

func TestPersonBeatsTheSourceUntilItChanges(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	run(t, w, func(wait func()) {
		w.watched, w.verdict = true, health.Verdict{Word: health.Good}
		if o, err := w.requests.Apply(context.Background(), control.ApplyRequest{
			Name:     "f",
			Document: "two",
		}); err != nil || o.Result != control.Applied {
			t.Errorf("%+v %v", o, err)
		}

		w.source <- struct{}{}
		wait()
		if s := w.last(); len(w.applied) != 2 || s.Held == nil || s.Phase != status.Applied {
			t.Errorf("%d applies, %+v", len(w.applied), s)
		}
		if o, err := w.requests.Apply(context.Background(), control.ApplyRequest{
			Name:     "f",
			Document: "two",
		}); err != nil || o.Result != control.Unchanged {
			t.Errorf("the same again: %+v %v", o, err)
		}
		if _, err := w.requests.Apply(context.Background(), control.ApplyRequest{
			Name:     "f",
			Document: "bad",
		}); err == nil {
			t.Error("a bad document was applied")
		}

		w.text = "three"
		w.source <- struct{}{}
		wait()
		if len(w.applied) != 3 {
			t.Errorf("the source changed: %d applies", len(w.applied))
		}

		o, err := w.requests.Rollback(context.Background(), control.RollbackRequest{})
		wait()
		if err != nil || o.Result != control.Reverted || len(w.applied) != 3 ||
			w.last().Held == nil {
			t.Errorf("rolled back: %+v %v, %d applies", o, err, len(w.applied))
		}
	})
}

func TestGenerationThatIsAppliedAgainIsWatchedAndReplacesTheSource(t *testing.T) {
	for _, tt := range []struct {
		verdict health.Verdict
		want    control.Result
	}{
		{health.Verdict{Word: health.Good}, control.Applied},
		{health.Verdict{Word: health.Bad, Reason: "unit a.service failed"}, control.Reverted},
	} {
		w := newFakeNode()
		w.text = "one"
		w.reapply = generation.Manifest{
			Number: 7,
			Digest: strings.Repeat("7", 64),
			Units:  []generation.Unit{{Name: "a.service"}},
		}
		run(t, w, func(wait func()) {
			done := make(chan control.Outcome, 1)
			go func() {
				o, err := w.requests.Rollback(context.Background(),
					control.RollbackRequest{Generation: "7", Held: true})
				if err != nil {
					t.Error(err)
				}
				done <- o
			}()
			w.pass(time.Minute)
			wait()
			if s := w.last(); len(done) > 0 || s.Change == nil || s.Held == nil ||
				s.Generation != w.reapply.Name() {
				t.Errorf("while it is watched: %+v", s)
			}

			w.verdict = tt.verdict
			w.units <- "a.service"
			wait()
			if o := <-done; o.Result != tt.want || o.Reason != tt.verdict.Reason {
				t.Errorf("outcome %+v, want %s", o, tt.want)
			}
		})
	}
}

func TestDriftIsRepairedAndCounted(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	run(t, w, func(wait func()) {
		if !slices.Contains(w.guarded, "/etc/a") || !slices.Contains(w.guarded, generation.Link) {
			t.Errorf("guarded %v", w.guarded)
		}
		w.looked, w.broken = nil, []string{"/etc/a"}
		w.drift <- []string{"/etc/a"}
		wait()
		if s := w.last(); s.Drift.Repaired != 1 || s.Drift.Last != "/etc/a" ||
			!slices.Equal(w.looked, []string{"/etc/a"}) {
			t.Errorf("%+v, looked at %v", s.Drift, w.looked)
		}
	})
}

func TestDriftIsRepairedBeforeASourceThatNeverStopsChangingIsReadAgain(t *testing.T) {
	w := newFakeNode()
	w.text, w.restless = "one", true
	run(t, w, func(wait func()) {
		w.did = nil
		w.drift <- []string{"/etc/b"}
		wait()
		if first := w.did[0]; !strings.HasPrefix(first, "repair ") ||
			!strings.Contains(first, "/etc/b") {
			t.Errorf("of %d things, it did %q first", len(w.did), w.did[:min(6, len(w.did))])
		}
	})
}

func TestFileWaitsForWhatItPointsAt(t *testing.T) {
	w := newFakeNode()
	w.text, w.unreachable = "probed", errors.New("connection refused")
	run(t, w, func(wait func()) {
		if s := w.last(); len(w.applied) != 1 || len(s.Waits) != 1 ||
			s.Waits[0].Path != "/etc/hosts.toml" {
			t.Errorf("%d applies, %+v", len(w.applied), s)
		}
		w.unreachable = nil
		w.pass(2 * probeDelay)
		wait()
		if s := w.last(); len(w.applied) != 2 || len(s.Waits) > 0 {
			t.Errorf("once it answers: %d applies, %+v", len(w.applied), s)
		}
	})
}

func TestLastOfManyChangesWinsWhileOneIsApplied(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	run(t, w, func(wait func()) {
		w.hold = make(chan struct{})
		for _, text := range []string{"two", "three", "four"} {
			w.text = text
			w.source <- struct{}{}
			wait()
		}
		close(w.hold)
		wait()
		if len(w.applied) != 3 { // one, two, four
			t.Errorf("%d applies", len(w.applied))
		}
	})
}

func TestUnitsAreLookedAtWhileAVerdictIsFarAway(t *testing.T) {
	w := newFakeNode()
	w.text, w.watched = "one", true
	w.verdict = health.Verdict{Word: health.Wait, Next: time.Hour}
	run(t, w, func(wait func()) {
		w.verdict = health.Verdict{Word: health.Good}
		w.units <- "a.service"
		wait()
		if !slices.Equal(w.concluded, []health.Word{health.Good}) {
			t.Errorf("concluded %v", w.concluded)
		}
	})
}

func TestApplyThatTheKernelRefusedIsTriedAgain(t *testing.T) {
	w := newFakeNode()
	w.text, w.refuse = "one", fmt.Errorf("write generation: %w", syscall.ENOSPC)
	run(t, w, func(wait func()) {
		if s := w.last(); s.Phase != status.Failed || s.Error == nil ||
			!strings.Contains(s.Error.Hint, "df -h") {
			t.Errorf("%+v, error %+v", s, s.Error)
		}
		w.refuse = nil
		w.pass(retryDelay)
		wait()
		if s := w.last(); s.Phase != status.Applied || len(w.applied) != 1 {
			t.Errorf("with room again: %+v, %d applies", s, len(w.applied))
		}
	})
}

// What was taken back before the agent started is in the record, and shown until
// the next change.
func TestTakenBackIsShownAfterAStart(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	run(t, w, func(func()) {})

	again := newFakeNode()
	again.text = "one"
	again.current = w.current
	want := &status.TakenBack{Generation: "7-abc", Why: "unit a.service failed"}
	again.takenBack = map[string]*status.TakenBack{w.current.Name(): want}
	run(t, again, func(wait func()) {
		if got := again.last().TakenBack; got == nil || *got != *want {
			t.Errorf("after a start: %+v, want %+v", got, want)
		}

		again.says("two", wait)
		if got := again.last().TakenBack; got != nil {
			t.Errorf("after the next change: %+v", got)
		}
	})
}
