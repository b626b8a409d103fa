package loop

import (
	"context"
	"errors"
	"testing"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/status"
)

// says has the source say text.
func (w *fakeNode) says(text string, wait func()) {
	w.text = text
	w.source <- struct{}{}
	wait()
}

// runs reports whether the node is what the document text alone asks for.
func (w *fakeNode) runs(text string) bool {
	return w.current.Digest == config.Desired{Files: []config.File{{
		Path:    "/etc/a",
		Content: config.Inline([]byte(text)),
	}}}.Digest()
}

// mustApply applies a document for an operator. The document proves itself.
func (w *fakeNode) mustApply(t *testing.T, text string) {
	t.Helper()
	w.watched, w.verdict = true, health.Verdict{Word: health.Good}
	if _, err := w.requests.Apply(context.Background(), control.ApplyRequest{
		Name:     "f",
		Document: text,
	}); err != nil {
		t.Fatal(err)
	}
}

func TestSourceThatGoesBackIsFollowed(t *testing.T) {
	w := newFakeNode()
	w.text = "A"

	run(t, w, func(wait func()) {
		w.mustApply(t, "person")
		wait()
		w.says("A", wait)
		if !w.runs("person") || w.last().Held == nil {
			t.Errorf("the source says nothing new: %+v", w.last())
		}
		for _, text := range []string{"B", "A"} {
			w.says(text, wait)
			if !w.runs(text) || w.last().Held != nil {
				t.Errorf("the source says %s: %+v", text, w.last())
			}
		}
	})
}

func TestRefusedApplyHoldsNothing(t *testing.T) {
	w := newFakeNode()
	w.text = "A"
	run(t, w, func(wait func()) {
		w.refuse = errors.New("unit absent.service: neither the image nor the configuration has this unit")
		if _, err := w.requests.Apply(context.Background(), control.ApplyRequest{
			Name:     "f",
			Document: "person",
		}); !errors.Is(err, w.refuse) {
			t.Errorf("refused: %v", err)
		}

		w.refuse = nil
		wait()
		if len(w.held) > 0 || !w.runs("A") || w.last().Held != nil {
			t.Errorf("held %v, %+v", w.held, w.last())
		}

		w.says("B", wait)
		w.says("A", wait)
		if !w.runs("A") {
			t.Error("what the source says is not applied any more")
		}
	})
}

func TestRefusedApplyKeepsWhatAnEarlierOneHolds(t *testing.T) {
	w := newFakeNode()
	w.text = "A"
	run(t, w, func(wait func()) {
		w.mustApply(t, "person")
		wait()
		w.refuse = errors.New("no")
		if _, err := w.requests.Apply(context.Background(), control.ApplyRequest{
			Name:     "f",
			Document: "another",
		}); err == nil {
			t.Error("it was not refused")
		}

		w.refuse = nil
		w.pass(2 * retryDelay)
		wait()
		if !w.runs("person") || w.last().Held == nil {
			t.Errorf("the source replaced what a person applied: %+v", w.last())
		}
	})
}

func TestMirrorThatAnswersDoesNotReplaceWhatAPersonApplied(t *testing.T) {
	for name, answers := range map[string]func(w *fakeNode, wait func()){
		"by itself": func(w *fakeNode, wait func()) {
			w.unreachable = nil
			w.pass(2 * probeDelay)
			wait()
		},
		"as the source is read again": func(w *fakeNode, wait func()) {
			w.unreachable = nil
			w.says("probed", wait)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFakeNode()
			w.text, w.unreachable = "probed", errors.New("connection refused")
			run(t, w, func(wait func()) {
				w.mustApply(t, "person")
				wait()
				answers(w, wait)
				if s := w.last(); !w.runs("person") || s.Phase != status.Applied || s.Held == nil {
					t.Errorf("%d applies, %+v", len(w.applied), s)
				}
				w.says("B", wait)
				if !w.runs("B") {
					t.Error("the source says something new, and nothing happens")
				}
			})
		})
	}
}
