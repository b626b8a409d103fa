package loop

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/status"
)

// ErrReset and ErrFollows mean that a reset has begun, or is over: the agent ends,
// to be started again as one that carries it out, or follows its source.
var (
	ErrReset   = errors.New("the node is reset")
	ErrFollows = errors.New("the reset is over")
)

// ErrInReset refuses what a node in a reset does not do.
var ErrInReset = errors.New("the node is reset and has no configuration\nhint: `loam apply` has it follow its source again")

const resetAgain = "`loam reset --yes` goes on with it, and so does the next start"

// ErrNotReset refuses to follow a source while something of before is there.
var ErrNotReset = errors.New("the reset is not complete\nhint: " + resetAgain)

// rest is all that is due while the node is in a reset.
func (l *loop) rest(ctx context.Context) {
	l.due.resume, l.due.read, l.due.reach, l.due.tidy = false, false, false, false
	clear(l.touched)
	if !l.published {
		l.show(ctx)
	}
}

// reset records a reset and ends the agent; in one that was started for it, it
// carries it out. What that came to is told to who asks first: it was asked of the
// agent before.
func (l *loop) reset(ctx context.Context, wish Wish) {
	r := l.Reset
	switch {
	case l.status.Reset == nil:
		if err := r.Begin(); err != nil {
			wish.fail(err)
			return
		}
		l.Log.Warn("reset: the agent starts anew for it")
		l.await(nil)
		wish.fail(ErrReset)
		l.End(ErrReset)
		return
	case l.wasReset && l.status.Reset.Done:
		l.wasReset = false
		l.answerReset(&wish)
		return
	}
	l.Log.Warn("reset", zap.Time("asked", l.status.Reset.At))
	l.accept()
	l.status.AppliedAt, l.changing = 0, true
	l.publish(status.Applying)
	l.start(func() func() {
		err := r.Run(ctx)
		return func() {
			l.wasReset, l.resetFailed, l.changing = true, err, false
			l.showReset(ctx)
			l.answerReset(&wish)
		}
	})
}

// showReset shows what a reset has come to.
func (l *loop) showReset(ctx context.Context) {
	l.status.Reset = l.Reset.Status()
	switch {
	case !l.status.Reset.Done:
		l.refuse("", &status.Error{Problem: "reset: " + l.resetFailed.Error(), Hint: resetAgain})
	case l.resetFailed != nil:
		l.warn("reset", l.resetFailed)
	default:
		l.Log.Info("the node is reset")
	}
	l.show(ctx)
	if l.Reset.Superseded() {
		if err := l.endReset(); err != nil {
			l.warn("another machine.yaml", err)
		}
	}
}

// answerReset tells what the reset has come to.
func (l *loop) answerReset(wish *Wish) {
	switch {
	case !l.status.Reset.Done:
		wish.fail(fmt.Errorf("the reset is not complete: %w\nhint: %s", l.resetFailed, resetAgain))
	case l.resetFailed != nil:
		wish.fail(fmt.Errorf("the node is reset, but: %w", l.resetFailed))
	default:
		wish.tell(control.Outcome{Result: control.Reset})
	}
}

// follow ends a reset, as a person wants it.
func (l *loop) follow(wish Wish) {
	if !l.status.Reset.Done {
		wish.fail(ErrNotReset)
		return
	}
	if err := l.endReset(); err != nil {
		wish.fail(err)
		return
	}
	wish.fail(ErrFollows)
}

func (l *loop) endReset() error {
	if err := l.Reset.Forget(); err != nil {
		return err
	}
	l.Log.Info("the reset is over: the agent starts anew")
	l.End(ErrFollows)
	return nil
}
