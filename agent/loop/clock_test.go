package loop

import (
	"testing"

	"github.com/loam-os/loam/agent/status"
)

func TestDoubtAboutTheClockComesAndGoes(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	w.doubt = &status.WrongClock{Problem: "the hardware's clock says 2026-11-26"}
	run(t, w, func(wait func()) {
		last := func() status.Status { return w.shown[len(w.shown)-1] }
		for _, s := range w.shown {
			if s.Clock != nil {
				t.Error("the clock is in doubt before a time server could answer")
			}
		}

		w.pass(clockDelay)
		wait()
		if last().Clock == nil || last().Reason != "the clock may be wrong" {
			t.Errorf("clock %+v, %s", last().Clock, last().Reason)
		}
		if w.told[len(w.told)-1].Clock == nil {
			t.Error("a doubt is no news on the consoles")
		}

		shown := len(w.shown)
		w.pass(10 * aliveInterval)
		wait()
		if len(w.shown) != shown {
			t.Errorf("published %d times more", len(w.shown)-shown)
		}

		w.doubt = nil
		w.pass(aliveInterval)
		wait()
		if last().Clock != nil || last().Health != status.Well {
			t.Errorf("clock %+v, %s", last().Clock, last().Health)
		}
	})
}
