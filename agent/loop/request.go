package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/agent/source"
)

// Wish is what a person or the cluster asks of the node: one of the first seven
// is set.
type Wish struct {
	Apply    *control.ApplyRequest
	Confirm  bool
	Rollback *control.RollbackRequest
	Verify   *control.VerifyRequest
	// Restart are units to restart.
	Restart []string
	// Reset asks for a reset to begin or to be carried out, Follow for its end.
	Reset, Follow bool

	answer chan<- answer
	// undo is what to do if the engine refuses it.
	undo func()
}

type answer struct {
	outcome control.Outcome
	report  control.VerifyReport
	err     error
}

// Wishes is a control.Node, but for Upgrade, that sends what it is asked to an
// agent's loop.
type Wishes chan Wish

// Apply is of control.Node; so are the following.
func (w Wishes) Apply(ctx context.Context, r control.ApplyRequest) (control.Outcome, error) {
	a := w.ask(ctx, Wish{Apply: &r}, nil)
	return a.outcome, a.err
}

func (w Wishes) Confirm(ctx context.Context) (control.Outcome, error) {
	a := w.ask(ctx, Wish{Confirm: true}, nil)
	return a.outcome, a.err
}

func (w Wishes) Rollback(ctx context.Context, r control.RollbackRequest) (control.Outcome, error) {
	a := w.ask(ctx, Wish{Rollback: &r}, nil)
	return a.outcome, a.err
}

func (w Wishes) Verify(ctx context.Context, r control.VerifyRequest) (control.VerifyReport, error) {
	a := w.ask(ctx, Wish{Verify: &r}, nil)
	return a.report, a.err
}

// Reset begins a reset, or carries out the one that has begun. [ErrReset] means
// that the agent ends first, to be started again.
func (w Wishes) Reset(ctx context.Context) (control.Outcome, error) {
	a := w.ask(ctx, Wish{Reset: true}, nil)
	return a.outcome, a.err
}

// Follow ends a reset. [ErrFollows] means that it has.
func (w Wishes) Follow(ctx context.Context) error {
	return w.ask(ctx, Wish{Follow: true}, nil).err
}

// Restart restarts units, each after the other, when nothing else changes the
// node.
func (w Wishes) Restart(ctx context.Context, units []string) error {
	return w.ask(ctx, Wish{Restart: units}, nil).err
}

// ask sends a wish and waits for what became of it. The loop takes none while
// something changes the node; who does not want to wait for that sets busy.
func (w Wishes) ask(ctx context.Context, wish Wish, busy <-chan time.Time) answer {
	got := make(chan answer, 1)
	wish.answer = got
	select {
	case w <- wish:
	case <-busy:
		return answer{err: liveness.ErrBusy}
	case <-ctx.Done():
		return answer{err: ended(ctx)}
	}
	select {
	case a := <-got:
		return a
	case <-ctx.Done():
		return answer{err: ended(ctx)}
	}
}

// ended is the error of a context that has ended, and why it has.
func ended(ctx context.Context) error {
	if why := context.Cause(ctx); !errors.Is(ctx.Err(), why) {
		return fmt.Errorf("%w: %w", why, ctx.Err())
	}
	return ctx.Err()
}

func (w *Wish) fail(err error) {
	if w != nil {
		w.answer <- answer{err: err}
	}
}

func (w *Wish) tell(o control.Outcome) {
	if w != nil {
		w.answer <- answer{outcome: o}
	}
}

// wishes are received only while nothing changes the node.
func (l *loop) wishes() <-chan Wish {
	if l.busy {
		return nil
	}
	return l.Asked
}

// grant begins what a person asks for.
func (l *loop) grant(ctx context.Context, wish Wish) {
	switch {
	case wish.Reset:
		l.reset(ctx, wish)
	case wish.Follow:
		l.follow(wish)
	case l.status.Reset != nil:
		wish.fail(ErrInReset)
	case wish.Verify != nil:
		l.verify(ctx, wish)
	case wish.Restart != nil:
		l.restart(ctx, wish)
	case wish.Confirm:
		l.confirm(ctx, wish)
	case wish.Rollback != nil:
		l.rollBack(ctx, wish)
	case l.isPending && l.pending.Try != nil:
		wish.fail(fmt.Errorf("%w: generation %s waits to be confirmed\nhint: `loam confirm`, or `loam rollback`", control.ErrBusy, l.pending.To))
	default:
		l.applyFor(ctx, wish)
	}
}

// applyFor applies the document that a person gives, or what the source says,
// although it may be held.
func (l *loop) applyFor(ctx context.Context, wish Wish) {
	have := l.current
	l.start(func() func() {
		var d wanted
		var err error
		switch {
		case wish.Apply.Document != "":
			d, err = l.decode(ctx, source.Document{Name: wish.Apply.Name, Text: []byte(wish.Apply.Document)}, have)
		case l.Source == nil:
			err = errors.New("this node has no source of configuration\nhint: give a file")
		default:
			d, err = l.fetch(ctx, have)
		}
		return func() {
			if err != nil {
				wish.fail(err)
				return
			}
			l.applyDocument(ctx, d, wish)
		}
	})
}

func (l *loop) applyDocument(ctx context.Context, d wanted, wish Wish) {
	digest := d.desired.Digest()
	if err := errors.Join(l.Engine.Release(digest), l.Engine.Release(d.whole)); err != nil {
		wish.fail(err)
		return
	}
	if digest == l.current.Digest {
		wish.tell(control.Outcome{Result: control.Unchanged, Generation: l.current.Name(), Digest: digest})
		l.due.read = true
		return
	}
	r := apply.Request{Desired: d.desired, Source: d.name, Try: wish.Apply.Try}
	if err := l.holdSource(r, &wish); err != nil {
		wish.fail(err)
		return
	}
	l.apply(ctx, r, &wish)
}

// holdSource keeps what the source said from replacing what a person has
// applied: it counts again when it changes.
func (l *loop) holdSource(r apply.Request, wish *Wish) error {
	if l.given == "" || l.given == r.Desired.Digest() {
		return nil
	}
	_, was, err := l.Engine.Held(l.whole)
	if err != nil || was {
		return err
	}
	wish.undo = l.releaseSource
	return l.Engine.Hold(apply.Held{Digest: l.whole, Why: "replaced by `loam apply " + r.Source + "`", Operator: true})
}

// await keeps who is told of the verdict. One who waited for the change before
// is told that there will be none.
func (l *loop) await(wish *Wish) {
	l.waiting.fail(fmt.Errorf("%w: it was replaced by the next", control.ErrBusy))
	l.waiting = wish
}

// tell says the verdict on a change, from before, to who waits for it.
func (l *loop) tell(v health.Verdict, before generation.Manifest) {
	wish := l.waiting
	if wish == nil {
		return
	}
	l.waiting = nil
	o := control.Outcome{Result: control.Applied, Generation: l.current.Name(), Digest: l.current.Digest, Reason: v.Reason}
	switch {
	case v.Word == health.Confirm:
		o.Result, o.Until = control.Trying, l.pending.Try.Until
	case v.Word == health.Bad && l.current.Name() == before.Name():
		wish.fail(fmt.Errorf("applied, and not well: %s\nhint: there is no generation before it to go back to", v.Reason))
		return
	case v.Word == health.Bad:
		o.Result, o.From = control.Reverted, before.Name()
	}
	wish.tell(o)
}

func (l *loop) confirm(ctx context.Context, wish Wish) {
	m, err := l.Engine.Confirm()
	if err != nil {
		wish.fail(err)
		return
	}
	l.observe()
	l.look(ctx)
	wish.tell(control.Outcome{Result: control.Confirmed, Generation: m.Name(), Digest: m.Digest})
}

func (l *loop) rollBack(ctx context.Context, wish Wish) {
	before := l.current
	l.start(func() func() {
		m, err := l.Engine.Rollback(ctx, wish.Rollback.Generation)
		return func() {
			switch {
			case errors.Is(err, apply.ErrUnfinished):
				wish.fail(err)
				l.changed(ctx, err)
				return
			case err != nil && m.Name() == "":
				wish.fail(err)
				l.look(ctx)
				return
			}
			l.await(nil)
			l.changed(ctx, err)
			wish.tell(control.Outcome{Result: control.Reverted, Generation: m.Name(), From: before.Name(), Digest: m.Digest})
			l.due.read = true
		}
	})
}

func (l *loop) restart(ctx context.Context, wish Wish) {
	l.Log.Info("restarting on request", zap.Strings("units", wish.Restart))
	l.start(func() func() {
		var errs []error
		for _, name := range wish.Restart {
			errs = append(errs, l.Units.Restart(ctx, name))
		}
		return func() {
			wish.answer <- answer{err: errors.Join(errs...)}
			l.look(ctx)
		}
	})
}

func (l *loop) verify(ctx context.Context, wish Wish) {
	content := l.content
	l.start(func() func() {
		verified, err := l.Engine.Verify(ctx, content, wish.Verify.Repair)
		return func() {
			report := control.VerifyReport{Checked: verified.Checked, Bytes: verified.Bytes}
			var repaired []string
			for _, bad := range verified.Bad {
				report.Bad = append(report.Bad, control.Finding(bad))
				if bad.Repaired {
					repaired = append(repaired, bad.Path)
				}
			}
			l.countDrift(repaired)
			wish.answer <- answer{report: report, err: err}
			l.look(ctx)
		}
	})
}
