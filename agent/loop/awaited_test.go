package loop

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/units"
)

// startingEngine starts units in each apply after the first.
type startingEngine struct {
	*fakeNode
	jobs *Jobs
}

func (e startingEngine) Apply(
	ctx context.Context, r apply.Request,
) (generation.Manifest, error) {
	if e.current.Name() != "" {
		go func() { _ = e.jobs.Start(ctx, "b.service") }()
		_ = e.jobs.Start(ctx, "a.service")
	}
	return e.fakeNode.Apply(ctx, r)
}

func TestStatusNamesTheUnitThatAChangeWaitsFor(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	w.jobs = &Jobs{Units: &units.Fake{Around: units.Slow(time.Minute)}}
	runEngine(t, w, startingEngine{w, w.jobs}, func(wait func()) {
		w.state.Active, w.state.Sub = "activating", "start"
		before := len(w.told)
		began := w.Uptime()
		w.text = "two"
		w.source <- struct{}{}
		wait()
		wait()
		want := status.Awaited{
			Unit:     "a.service",
			State:    "activating/start",
			Others:   1,
			Deadline: status.Duration(began + limit),
		}
		if s := w.last(); s.Phase != status.Applying || s.Awaited == nil || *s.Awaited != want {
			t.Errorf("%s, awaits %+v, want %+v", s.Phase, s.Awaited, want)
		}

		w.pass(30 * time.Second)
		if told := w.told[before:]; len(told) != 2 { // It is applied, and what it waits for.
			t.Errorf("%d times news", len(told))
		}

		w.state.Active, w.state.Sub = "active", "running"
		w.pass(time.Minute)
		if s := w.last(); s.Phase != status.Applied || s.Awaited != nil {
			t.Errorf("in the end: %s, awaits %+v", s.Phase, s.Awaited)
		}
	})
}

func TestStatusNamesTheUnitThatAVerdictWaitsFor(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	run(t, w, func(wait func()) {
		w.watched = true
		w.verdict = health.Verdict{
			Word:     health.Wait,
			Unit:     "a.service",
			Deadline: time.Hour,
			Next:     time.Hour,
		}
		w.state.Active, w.state.Sub = "activating", "start"
		w.text = "two"
		w.source <- struct{}{}
		wait()
		want := status.Awaited{Unit: "a.service", State: "activating/start", Deadline: status.Duration(time.Hour)}
		if s := w.last(); s.Awaited == nil || *s.Awaited != want {
			t.Errorf("awaits %+v, want %+v", s.Awaited, want)
		}

		w.verdict = health.Verdict{Word: health.Good}
		w.units <- "a.service"
		wait()
		if s := w.last(); s.Awaited != nil {
			t.Errorf("after the verdict it awaits %+v", s.Awaited)
		}
	})
}

func TestAwaitedText(t *testing.T) {
	a := status.Awaited{Unit: "a.service", State: "activating/start", Others: 2}
	if got := a.Text(0); strings.Contains(got, "taken back") {
		t.Errorf("with nothing to go back to: %s", got)
	}

	a.Deadline = status.Duration(5 * time.Minute)
	want := "a.service, which is activating/start, and 2 more; taken back in 2m50s if it is not up"
	if got := a.Text(130 * time.Second); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
