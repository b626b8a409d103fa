package cluster

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/turns"
)

// failedHere is a node on which the pending configuration and system 2.0.0 have
// failed.
func failedHere() world {
	w := withPolicy(newWorld())
	w.released = w.pending
	w.status.Offered = "new"
	w.status.Refusal = status.Reverted
	w.status.Upgrade = &status.Upgrade{Failed: []status.FailedSystem{
		{Version: "2.0.0", RootHash: "89ab"},
	}}
	w.turn.kept.Failed = "new"
	return w
}

func TestANodeTriesOnceMoreWhatHasFailed(t *testing.T) {
	for _, tt := range []struct {
		name, target string
		edit         func(w *world)
		update       inplace.Step
		want         retry
	}{
		{"the configuration", "new", func(*world) {}, inplace.Nothing, retry{configuration: true}},
		{"a system", "89ab", func(*world) {}, inplace.Nothing, retry{version: "2.0.0"}},
		{"a configuration that has not failed", "new", func(w *world) {
			w.turn.kept.Failed = ""
		}, inplace.Nothing, retry{ignored: "it has not failed here"}},
		{"a configuration that another one has replaced", "old", func(w *world) {
			w.turn.kept.Failed = "old"
		}, inplace.Nothing, retry{ignored: "it is not the configuration of the node any more, and " +
			"no system that has failed here"}},
		{"a system that has not failed", "cdef", func(w *world) {
			w.status.Upgrade = nil
		}, inplace.Nothing, retry{ignored: "it is not the configuration of the node any more, and " +
			"no system that has failed here"}},
		{"an update in place", "new", func(*world) {}, inplace.GaveUp, retry{
			ignored: "the update in place has booted its system in vain: `loam upgrade --again` on " +
				"the node tries that once more",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := failedHere()
			tt.edit(&w)
			if got := retryOf(w, tt.target, tt.update); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestTheAnnotationGoesBeforeTheRetry has each write fail: nothing is tried before
// the annotation is gone, and the failure is remembered until it is.
func TestTheAnnotationGoesBeforeTheRetry(t *testing.T) {
	errPatch := errors.New("no API server")
	for _, tt := range []struct {
		name string
		fail string
		want []string
		kept turns.Turn
	}{
		{
			"both",
			"",
			[]string{retryAnnotation, failedAnnotation, "2.0.0", failedSystemAnnotation},
			turns.Turn{Retry: "new"},
		},
		{
			"the annotation stays",
			retryAnnotation,
			[]string{retryAnnotation},
			turns.Turn{Failed: "new"},
		},
		{
			"the failure stays",
			failedAnnotation,
			[]string{retryAnnotation, failedAnnotation, "2.0.0", failedSystemAnnotation},
			turns.Turn{Retry: "new"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root, err := os.OpenRoot(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()

			var did []string
			jobs := newTestJobs(t)
			c := retryController{
				patch: func(_ context.Context, w *world, annotations map[string]any) error {
					n := w.node.DeepCopy()
					for key := range annotations {
						did = append(did, key)
						delete(n.Annotations, key)
						if key == tt.fail {
							return errPatch
						}
					}
					w.setNode(n)
					return nil
				},
				env: Env{
					Root: root,
					Again: func(_ context.Context, version string) error {
						did = append(did, version)
						return nil
					},
					Log: zap.NewNop(),
				},
				jobs:    jobs,
				inbox:   newInbox(),
				updates: &updates{},
			}

			w := failedHere()
			w.turn.kept.Holder = turns.Holder{}
			n := annotated(retryAnnotation, "new, 89ab")
			n.Annotations[failedAnnotation] = turns.Failure{Target: "new"}.String()
			n.Annotations[failedSystemAnnotation] = turns.Failure{Target: "89ab", Version: "2.0.0"}.String()
			w.setNode(n)
			_, err = c.step(t.Context(), &w)
			if (tt.fail == "") != (err == nil) {
				t.Errorf("error %v", err)
			}
			jobs.group.Wait()

			if diff := cmp.Diff(tt.want, did); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.kept, w.turn.kept); diff != "" {
				t.Errorf("turn (-want +got):\n%s", diff)
			}
			if tt.kept.Retry != "" {
				if diff := cmp.Diff(tt.kept, loadTurn(root, zap.NewNop()).kept); diff != "" {
					t.Errorf("turn on the disk (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestARetryTakesATurn follows the configuration: it waits for a turn, is applied
// once, and counts as failed only by what comes of that.
func TestARetryTakesATurn(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()

	applied := make(chan struct{})
	var done []func()
	jobs := newTestJobs(t)
	jobs.post = func(_ context.Context, f func()) { done = append(done, f) }
	c := retryController{
		env: Env{
			Root: root,
			Apply: func(context.Context) error {
				close(applied)
				return errors.New("reverted")
			},
			Log: zap.NewNop(),
		},
		jobs: jobs,
	}

	w := failedHere()
	need := func(when string, want turns.Need) {
		t.Helper()
		if got := configurationChange(w, inplace.Nothing).need; got != want {
			t.Errorf("%s: needs %q, want %q", when, got, want)
		}
	}
	w.turn.kept = w.turn.kept.Again()
	need("before its turn", turns.NeedTurn)
	if got, _ := decideRelease(w, inplace.Nothing, turn{}); got != releaseWait {
		t.Errorf("before its turn: %s", got)
	}

	w.turn.kept.Phase = turns.Holding
	if got, _ := decideRelease(w, inplace.Nothing, turn{}); got != releaseNow {
		t.Errorf("in its turn: %s", got)
	}
	if retry, err := c.begin(&w); !retry || err != nil {
		t.Errorf("begins %v: %v", retry, err)
	}
	if retry, err := c.begin(&w); retry || err != nil {
		t.Errorf("begins twice: %v", err)
	}

	c.apply(&w)
	<-applied
	jobs.group.Wait()
	need("while it is applied", turns.NeedNothing)
	for _, f := range done {
		f()
	}
	need("once it has failed", turns.NeedFail)
}
