package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/status"
)

// full is a node whose disk is full, so that no revert ends. stuck is a path
// that cannot be placed.
type full struct {
	*fakeNode
	no    error
	stuck error
}

var errFull = fmt.Errorf("%w: write the journal: %w", apply.ErrUnfinished, syscall.ENOSPC)

func (f *full) Conclude(ctx context.Context, v health.Verdict) (generation.Manifest, error) {
	f.mu.Lock()
	no := f.no
	f.mu.Unlock()
	if no != nil {
		return generation.Manifest{}, no
	}
	return f.fakeNode.Conclude(ctx, v)
}

func (f *full) Rollback(context.Context, string) (generation.Manifest, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	if f.no != nil {
		f.pending = apply.Pending{Journal: generation.Journal{To: "old", Back: "of the operator"}}
		return generation.Manifest{}, f.no
	}
	return f.rollback()
}

// Resume completes a rollback, but no revert.
func (f *full) Resume(context.Context) (apply.Resumed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.resumed++
	if f.no == nil && f.pending.Back != "" {
		f.pending = apply.Pending{}
		_, err := f.rollback()
		return apply.Resumed{Finished: f.current.Name(), Drift: f.stuck}, err
	}
	return apply.Resumed{Drift: f.stuck}, f.no
}

func (f *full) Repair(
	ctx context.Context,
	paths []string,
	content map[string]config.Content,
) ([]string, error) {
	did, _ := f.fakeNode.Repair(ctx, paths, content)
	f.mu.Lock()
	defer f.mu.Unlock()

	return did, f.stuck
}

func TestChangeIsTakenBackOnceThereIsRoom(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	f := &full{fakeNode: w}
	runEngine(t, w, f, func(wait func()) {
		good := w.current.Name()
		w.watched, w.verdict = true, health.Verdict{Word: health.Wait, Next: time.Hour}
		told := make(chan error, 1)
		go func() {
			_, err := w.requests.Apply(context.Background(), control.ApplyRequest{
				Name:     "f",
				Document: "two",
			})
			told <- err
		}()
		wait()
		f.no, w.verdict = errFull, health.Verdict{Word: health.Bad, Reason: "unit a.service failed"}
		w.units <- "a.service"
		w.pass(time.Hour)
		wait()
		if s := w.last(); s.Generation == good || s.Phase != status.Failed ||
			!strings.Contains(s.Error.Hint, "df -h") || w.resumed < 100 {
			t.Errorf("without room: %+v, error %+v, resumed %d times", s, s.Error, w.resumed)
		}
		if err := <-told; !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("who asked for it is told: %v", err)
		}

		f.no = nil
		w.pass(retryDelay)
		wait()
		if s := w.last(); s.Generation != good || s.Change != nil ||
			!slices.Equal(w.concluded, []health.Word{health.Bad}) {
			t.Errorf("with room: %+v, concluded %v", s, w.concluded)
		}
	})
}

func TestRollbackIsCompletedOnceThereIsRoom(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	f := &full{fakeNode: w}
	runEngine(t, w, f, func(wait func()) {
		good := w.current.Name()
		w.says("two", wait)
		f.no = errFull

		_, err := w.requests.Rollback(context.Background(), control.RollbackRequest{})
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("without room: %v", err)
		}

		w.pass(time.Minute)
		wait()
		if s := w.last(); s.Phase != status.Failed || s.Error == nil {
			t.Errorf("without room: %+v", s)
		}

		f.no = nil
		w.pass(retryDelay)
		wait()
		if s := w.last(); s.Generation != good || s.Error != nil || s.Phase != status.Applied {
			t.Errorf("with room: %+v, error %+v", s, s.Error)
		}
	})
}

func TestPathThatCannotBeHadDoesNotKeepAChangeFromItsVerdict(t *testing.T) {
	for _, word := range []health.Word{health.Good, health.Bad} {
		t.Run(fmt.Sprint(word), func(t *testing.T) {
			w := newFakeNode()
			w.text = "one"
			f := &full{fakeNode: w, stuck: fmt.Errorf("place /var/x: %w", syscall.EBUSY)}
			runEngine(t, w, f, func(wait func()) {
				w.watched, w.verdict = true, health.Verdict{Word: health.Wait, Next: time.Hour}
				w.says("two", wait)
				w.broken = []string{"/etc/a"}
				w.drift <- []string{"/etc/a", "/var/x"}
				wait()
				if s := w.last(); s.Error == nil || s.Error.Problem != f.stuck.Error() ||
					s.Drift.Repaired != 1 {
					t.Errorf("%+v, error %+v", s, s.Error)
				}

				w.verdict = health.Verdict{Word: word, Reason: "of the test"}
				w.units <- "a.service"
				wait()
				if !slices.Equal(w.concluded, []health.Word{word}) ||
					w.runs("two") != (word == health.Good) {
					t.Errorf("concluded %v", w.concluded)
				}

				resumed := w.resumed
				f.stuck = nil
				w.pass(retryDelay)
				wait()
				if s := w.last(); (word == health.Good && s.Error != nil) || w.resumed != resumed {
					t.Errorf("once it can be had: error %+v, %d resumes",
						s.Error, w.resumed-resumed)
				}
			})
		})
	}
}
