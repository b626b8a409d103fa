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

// full is a node whose disk is full: no way back ends. stuck is a path that
// cannot be had.
type full struct {
	*world
	no    error
	stuck error
}

var errFull = fmt.Errorf("%w: write the journal: %w", apply.ErrUnfinished, syscall.ENOSPC)

func (f *full) Settle(ctx context.Context, v health.Verdict) (generation.Manifest, error) {
	if f.no != nil {
		return generation.Manifest{}, f.no
	}
	return f.world.Settle(ctx, v)
}

func (f *full) Rollback(ctx context.Context, name string) (generation.Manifest, error) {
	if f.no != nil {
		f.pending = apply.Pending{Journal: generation.Journal{To: "old", Back: "of the operator"}}
		return generation.Manifest{}, f.no
	}
	return f.world.Rollback(ctx, name)
}

// Resume completes a rollback, and no other way back.
func (f *full) Resume(ctx context.Context) (apply.Resumed, error) {
	f.resumed++
	if f.no == nil && f.pending.Back != "" {
		f.pending = apply.Pending{}
		_, err := f.world.Rollback(ctx, "")
		return apply.Resumed{Finished: f.current.Name(), Drift: f.stuck}, err
	}
	return apply.Resumed{Drift: f.stuck}, f.no
}

func (f *full) Repair(ctx context.Context, paths []string, content map[string]config.Content) ([]string, error) {
	did, _ := f.world.Repair(ctx, paths, content)
	return did, f.stuck
}

func TestChangeIsTakenBackOnceThereIsRoom(t *testing.T) {
	w := newWorld()
	w.text = "one"
	f := &full{world: w}
	runEngine(t, w, f, func(settle func()) {
		good := w.current.Name()
		w.judged, w.verdict = true, health.Verdict{Word: health.Wait, Next: time.Hour}
		told := make(chan error, 1)
		go func() {
			_, err := w.requests.Apply(context.Background(), control.ApplyRequest{Name: "f", Document: "two"})
			told <- err
		}()
		settle()
		f.no, w.verdict = errFull, health.Verdict{Word: health.Bad, Reason: "unit a.service failed"}
		w.units <- "a.service"
		time.Sleep(time.Hour)
		settle()
		if s := w.last(); s.Generation == good || s.Phase != status.Failed || !strings.Contains(s.Error.Hint, "df -h") || w.resumed < 100 {
			t.Errorf("without room: %+v, error %+v, resumed %d times", s, s.Error, w.resumed)
		}
		if err := <-told; !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("who asked for it is told: %v", err)
		}
		f.no = nil
		time.Sleep(retryDelay)
		settle()
		if s := w.last(); s.Generation != good || s.Change != nil || !slices.Equal(w.settled, []health.Word{health.Bad}) {
			t.Errorf("with room: %+v, settled %v", s, w.settled)
		}
	})
}

func TestRollbackIsCompletedOnceThereIsRoom(t *testing.T) {
	w := newWorld()
	w.text = "one"
	f := &full{world: w}
	runEngine(t, w, f, func(settle func()) {
		good := w.current.Name()
		w.says("two", settle)
		f.no = errFull
		if _, err := w.requests.Rollback(context.Background(), control.RollbackRequest{}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("without room: %v", err)
		}
		time.Sleep(time.Minute)
		settle()
		if s := w.last(); s.Phase != status.Failed || s.Error == nil {
			t.Errorf("without room: %+v", s)
		}
		f.no = nil
		time.Sleep(retryDelay)
		settle()
		if s := w.last(); s.Generation != good || s.Error != nil || s.Phase != status.Applied {
			t.Errorf("with room: %+v, error %+v", s, s.Error)
		}
	})
}

func TestPathThatCannotBeHadDoesNotKeepAChangeFromItsVerdict(t *testing.T) {
	for _, word := range []health.Word{health.Good, health.Bad} {
		t.Run(fmt.Sprint(word), func(t *testing.T) {
			w := newWorld()
			w.text = "one"
			f := &full{world: w, stuck: fmt.Errorf("place /var/x: %w", syscall.EBUSY)}
			runEngine(t, w, f, func(settle func()) {
				w.judged, w.verdict = true, health.Verdict{Word: health.Wait, Next: time.Hour}
				w.says("two", settle)
				w.broken = []string{"/etc/a"}
				w.drift <- []string{"/etc/a", "/var/x"}
				settle()
				if s := w.last(); s.Error == nil || s.Error.Problem != f.stuck.Error() || s.Drift.Repaired != 1 {
					t.Errorf("%+v, error %+v", s, s.Error)
				}
				w.verdict = health.Verdict{Word: word, Reason: "of the test"}
				w.units <- "a.service"
				settle()
				if !slices.Equal(w.settled, []health.Word{word}) || w.runs("two") != (word == health.Good) {
					t.Errorf("settled %v", w.settled)
				}
				resumed := w.resumed
				f.stuck = nil
				time.Sleep(retryDelay)
				settle()
				if s := w.last(); word == health.Good && s.Error != nil || w.resumed != resumed {
					t.Errorf("once it can be had: error %+v, %d resumes", s.Error, w.resumed-resumed)
				}
			})
		})
	}
}
