package loop

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/status"
)

// fails is a unit that has failed.
func (w *fakeNode) fails() {
	w.state.Active = "failed"
	w.state.Sub = "failed"
	w.state.Result = "exit-code"
	w.state.ExitCode = 3
}

func TestUnitThatDoesNotCountIsReportedOnceAndHoldsNothing(t *testing.T) {
	w, cluster := newFakeNode(), &recorder{}
	w.text, w.watched, w.cluster = "one", true, cluster
	w.fails()
	how := "unit a.service failed: exit-code, exit code 3"
	w.verdict = health.Verdict{
		Word:   health.Good,
		Reason: how,
		Unwell: []health.Unwell{{Unit: "a.service", How: how}},
	}
	run(t, w, func(wait func()) {
		w.units <- "a.service"
		wait()
		s := w.last()
		if s.AppliedAt == 0 || s.Error == nil || s.Error.Problem != how ||
			s.Error.Hint != "`loam logs a.service`" {
			t.Errorf("applied at %s, error %+v", s.AppliedAt, s.Error)
		}

		want := []string{how + "; hint: `loam logs a.service`"}
		if !slices.Equal(s.Warnings, want) {
			t.Errorf("warnings %q", s.Warnings)
		}

		w.state.Active, w.state.Sub, w.state.Since = "active", "running", time.Since(w.began)
		w.units <- "a.service"
		wait()
		if s := w.last(); s.Error != nil || len(s.Warnings) != 1 {
			t.Errorf("up again: error %+v, warnings %q", s.Error, s.Warnings)
		}
		w.pass(2 * steady)
		wait()
		if s := w.last(); len(s.Warnings) > 0 || s.Phase != status.Applied {
			t.Errorf("up again for a while: %s, warnings %q", s.Phase, s.Warnings)
		}
	})
	if want := []string{"UnitNotWell: " + how}; !slices.Equal(cluster.events, want) {
		t.Errorf("events %q", cluster.events)
	}
}

// TestAppliedIsNewsWhateverBecomesOfAUnit: the phase alone would not say so.
func TestAppliedIsNewsWhateverBecomesOfAUnit(t *testing.T) {
	w := newFakeNode()
	w.text, w.owed = "one", []string{"a.service"}
	w.fails()
	run(t, w, func(wait func()) {
		if s := w.last(); s.Phase != status.Failed || s.IsApplied() {
			t.Errorf("while a unit is to be started: %s, applied at %s", s.Phase, s.AppliedAt)
		}
		w.owed = nil
		w.pass(firstStart)
		wait()
	})

	if !slices.ContainsFunc(w.told, func(s status.Status) bool {
		return s.Phase == status.Failed &&
			s.IsApplied()
	}) {
		t.Errorf("told %+v", w.told)
	}
}

func TestWarningEndsWithTheNextConfiguration(t *testing.T) {
	w := newFakeNode()
	w.text, w.watched = "one", true
	w.verdict = health.Verdict{
		Word:   health.Good,
		Unwell: []health.Unwell{{Unit: "a.service", How: "unit a.service is inactive/dead"}},
	}

	w.state.Active = "inactive"
	run(t, w, func(wait func()) {
		wait()
		if s := w.last(); len(s.Warnings) != 1 {
			t.Errorf("warnings %q", s.Warnings)
		}
		w.text = "two"
		w.verdict = health.Verdict{Word: health.Wait, Next: time.Hour}
		w.source <- struct{}{}
		wait()
		if s := w.last(); len(s.Warnings) > 0 {
			t.Errorf("of the next configuration: warnings %q", s.Warnings)
		}
	})
}

func TestNoConfigurationIsAppliedBeforeWhatIsOwed(t *testing.T) {
	w := newFakeNode()
	w.text, w.owed, w.fail = "one", []string{"a.service"}, errors.New("start a.service: failed")
	w.fails()
	run(t, w, func(wait func()) {
		w.pass(20 * time.Minute)
		if s := w.last(); s.AppliedAt > 0 || s.Phase != status.Failed || s.Error == nil ||
			!strings.Contains(s.Error.Problem, "start a.service") {
			t.Errorf("%s, applied at %s, error %+v", s.Phase, s.AppliedAt, s.Error)
		}

		w.owed = nil
		w.state.Active = "active"
		w.pass(lastStart)
		wait()
		if s := w.last(); s.AppliedAt == 0 || s.Phase != status.Applied || s.Error != nil {
			t.Errorf("started: %s, applied at %s, error %+v", s.Phase, s.AppliedAt, s.Error)
		}

		tries := len(w.retried)
		w.pass(2 * lastStart)
		if len(w.retried) != tries {
			t.Error("it is started again, with nothing owed")
		}
	})

	for i, want := range []time.Duration{5, 15, 35, 75, 155, 315, 615, 915} {
		if got := w.retried[i].Round(time.Second); got != want*time.Second {
			t.Errorf("try %d after %s, not %s", i+1, got, want*time.Second)
		}
	}
}

func TestUnitThatComesUpByItselfIsNoLongerOwed(t *testing.T) {
	w := newFakeNode()
	w.text, w.owed, w.fail = "one", []string{"a.service"}, errors.New("start a.service: failed")
	w.fails()
	run(t, w, func(wait func()) {
		w.owed = nil // As Retry finds it up.
		w.state.Active, w.state.Sub = "active", "running"
		w.units <- "a.service"
		wait()
		if s := w.last(); s.AppliedAt == 0 || s.Error != nil || len(w.retried) != 1 ||
			w.retried[0] > firstStart {
			t.Errorf("applied at %s, error %+v, tried %v", s.AppliedAt, s.Error, w.retried)
		}
	})
}

func TestNextConfigurationRestartsTheBackoff(t *testing.T) {
	w := newFakeNode()
	w.text, w.owed, w.fail = "one", []string{"a.service"}, errors.New("start a.service: failed")
	w.fails()
	run(t, w, func(wait func()) {
		w.pass(10 * time.Minute)
		w.text = "two"
		w.source <- struct{}{}
		wait()
		tries := len(w.retried)
		w.pass(firstStart)
		wait()
		if len(w.retried) != tries+1 {
			t.Errorf("tried %v", w.retried)
		}
	})
}

// TestBootWaitsForWhatIsOnItsWay: without a change, nothing else tells when the
// units have come up. A unit that never does must not hold back the others.
func TestBootWaitsForWhatIsOnItsWay(t *testing.T) {
	w := newFakeNode()
	w.current = generation.Manifest{Digest: "x", Units: []generation.Unit{{Name: "a.service"}}}
	w.state.Active, w.state.Sub = "activating", "start"
	run(t, w, func(wait func()) {
		if s := w.last(); s.AppliedAt > 0 {
			t.Errorf("applied at %s", s.AppliedAt)
		}
		w.pass(limit)
		wait()
		if s := w.last(); s.AppliedAt == 0 {
			t.Error("never applied")
		}
	})
}

func TestEssentialUnitHoldsBackTheWord(t *testing.T) {
	w := newFakeNode()
	w.current = generation.Manifest{
		Digest: "x",
		Units:  []generation.Unit{{Name: "a.service", Essential: true}},
	}

	w.fails()
	run(t, w, func(wait func()) {
		w.pass(2 * limit)
		if s := w.last(); s.AppliedAt > 0 || s.Phase != status.Failed {
			t.Errorf("%s, applied at %s", s.Phase, s.AppliedAt)
		}
		w.state.Active = "active"
		w.units <- "a.service"
		wait()
		if s := w.last(); s.AppliedAt == 0 {
			t.Error("not applied, although it is up")
		}
	})
}
