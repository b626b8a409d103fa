package loop

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/agent/registry"
	"github.com/loam-os/loam/agent/source"
)

// hungDecoder waits for a containerd that hangs.
type hungDecoder struct{}

func (hungDecoder) Decode(context.Context, source.Document) (config.Desired, error) {
	time.Sleep(registry.AnswerLimit)
	return config.Desired{}, errors.New("containerd hangs")
}

// A configuration that refers to images has the loop wait for a containerd that
// hangs, again and again. That one is restarted all the same, whenever that is
// asked for.
func TestHangingUnitIsRestartedWhileTheLoopWaitsForIt(t *testing.T) {
	for late := range 16 {
		synctest.Test(t, func(t *testing.T) {
			w := newFakeNode()
			w.text, w.requests, w.queries = "one", make(Requests), make(Queries)
			a := w.agent()
			a.Decoder = hungDecoder{}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- a.Run(ctx) }()
			time.Sleep(time.Minute + time.Duration(late)*time.Second)
			err := w.requests.RestartUnlessBusy(ctx, []string{"containerd.service"})
			if err != nil || !slices.Equal(w.restarted, []string{"containerd.service"}) {
				t.Errorf("after %d s: %v, restarted %q", 60+late, err, w.restarted)
			}

			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAChangeThatTakesLongIsNotWaitedForByARestart(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	run(t, w, func(wait func()) {
		w.hold, w.text = make(chan struct{}), "two"
		w.source <- struct{}{}
		wait()

		err := w.requests.RestartUnlessBusy(context.Background(), []string{"containerd.service"})
		if !errors.Is(err, liveness.ErrBusy) {
			t.Error(err)
		}
		close(w.hold)
		wait()
	})
	if len(w.restarted) > 0 {
		t.Errorf("restarted %q", w.restarted)
	}
}
