package agent

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade"
)

// ErrReset and ErrFollows mean that a reset has begun, or is over: the agent ends,
// to be started again as one that carries it out, or follows its source.
var (
	ErrReset   = errors.New("the node is reset")
	ErrFollows = errors.New("the reset is over")
)

// Resetter makes the node one that was never configured; see reset.Reset.
type Resetter interface {
	// Active reports whether the node is in a reset. It may be called while Run runs.
	Active() bool
	// Status is nil if the node is in no reset.
	Status() *status.Reset
	// Begin records a reset, Run carries it out, and Forget ends it.
	Begin() error
	Run(ctx context.Context) error
	Forget() error
	// Superseded reports whether a new machine.yaml has ended the reset.
	Superseded() bool
}

// Reset is a reset as the loop carries it out.
type Reset struct {
	Node Resetter
	// End ends the agent, to be started again.
	End func(why error)

	// ran says that this agent has carried it out, and failed is the error.
	ran    bool
	failed error
}

// done reports whether neither configuration nor identity is left.
func (r *Reset) done() bool {
	s := r.Node.Status()
	return s != nil && s.Done
}

// unfinished reports whether an agent before this one has begun a reset, and none
// has completed it.
func (r *Reset) unfinished() bool {
	s := r.Node.Status()
	return s != nil && !s.Done
}

// person is what a person can ask of an agent that runs on a node.
type person struct {
	Wishes
	reset *Reset
	// upgrades is nil where no other system can be brought.
	upgrades *upgrade.Service
}

// Upgrade is of control.Node.
func (p person) Upgrade(ctx context.Context, r control.UpgradeRequest) (control.Outcome, error) {
	if p.upgrades == nil {
		return control.Outcome{}, errors.New("this node cannot be upgraded\nhint: it was not started from a disk of its own; see `loam status`")
	}
	atOnce := r.Now || r.Back || r.Drill != ""
	wish := upgrade.Options{Ref: r.From, Again: r.Again, Now: r.Now, AtOnce: atOnce, Stay: r.Stay}
	version, err := p.upgrades.Ask(ctx, upgrade.Request{Options: wish, Version: r.Version, Permit: r.Permit, Plan: r.Plan, Rollback: r.Back, Drill: r.Drill})
	o := control.Outcome{Result: control.Armed, Version: version}
	if opens := p.upgrades.Opens(wish); !opens.IsZero() && !r.Stay {
		o.Reason = opens.Format(" on Mon at 15:04 MST")
	}
	return o, err
}

// Reset is of control.Node.
func (p person) Reset(ctx context.Context) (control.Outcome, error) {
	a := p.ask(ctx, Wish{Reset: p.reset}, nil)
	if errors.Is(a.err, ErrReset) {
		a.err = fmt.Errorf("%w: %w", a.err, control.ErrRestarting)
	}
	return a.outcome, a.err
}

// Apply ends a reset, and is then for the next agent.
func (p person) Apply(ctx context.Context, request control.ApplyRequest) (control.Outcome, error) {
	if !p.reset.Node.Active() { // Which stays so until the agent ends.
		return p.Wishes.Apply(ctx, request)
	}
	a := p.ask(ctx, Wish{Follow: p.reset}, nil)
	if errors.Is(a.err, ErrFollows) {
		a.err = fmt.Errorf("%w: %w", a.err, control.ErrRestarting)
	}
	return a.outcome, a.err
}

// errInReset refuses what a node in a reset does not do.
var errInReset = errors.New("the node is reset and has no configuration\nhint: `loam apply` has it follow its source again")

const resetAgain = "`loam reset --yes` goes on with it, and so does the next start"

// errNotReset refuses to follow a source while something of before is there.
var errNotReset = errors.New("the reset is not complete\nhint: " + resetAgain)

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
	r := wish.Reset
	switch {
	case l.status.Reset == nil:
		if err := r.Node.Begin(); err != nil {
			wish.fail(err)
			return
		}
		l.Log.Warn("reset: the agent starts anew for it")
		l.await(nil)
		wish.fail(ErrReset)
		r.End(ErrReset)
		return
	case r.ran && r.done():
		r.ran = false
		r.answer(&wish)
		return
	}
	l.Log.Warn("reset", zap.Time("asked", r.Node.Status().At))
	l.accept()
	l.status.AppliedAt, l.changing = 0, true
	l.publish(status.Applying)
	l.start(func() func() {
		err := r.Node.Run(ctx)
		return func() {
			r.ran, r.failed, l.changing = true, err, false
			l.wasReset(ctx, r)
			r.answer(&wish)
		}
	})
}

// wasReset shows what a reset has come to.
func (l *loop) wasReset(ctx context.Context, r *Reset) {
	l.status.Reset = r.Node.Status()
	switch {
	case !r.done():
		l.refuse("", &status.Error{Problem: "reset: " + r.failed.Error(), Hint: resetAgain})
	case r.failed != nil:
		l.warn("reset", r.failed)
	default:
		l.Log.Info("the node is reset")
	}
	l.show(ctx)
	if r.Node.Superseded() {
		if err := l.endReset(r); err != nil {
			l.warn("another machine.yaml", err)
		}
	}
}

// answer tells what the reset has come to.
func (r *Reset) answer(wish *Wish) {
	switch {
	case !r.done():
		wish.fail(fmt.Errorf("the reset is not complete: %w\nhint: %s", r.failed, resetAgain))
	case r.failed != nil:
		wish.fail(fmt.Errorf("the node is reset, but: %w", r.failed))
	default:
		wish.tell(control.Outcome{Result: control.Reset})
	}
}

// follow ends a reset, as a person wants it.
func (l *loop) follow(wish Wish) {
	if !wish.Follow.done() {
		wish.fail(errNotReset)
		return
	}
	if err := l.endReset(wish.Follow); err != nil {
		wish.fail(err)
		return
	}
	wish.fail(ErrFollows)
}

func (l *loop) endReset(r *Reset) error {
	if err := r.Node.Forget(); err != nil {
		return err
	}
	l.Log.Info("the reset is over: the agent starts anew")
	r.End(ErrFollows)
	return nil
}

// goOn carries out what an agent before this one has begun.
func (p person) goOn(ctx context.Context, log *zap.Logger) {
	if _, err := p.Reset(ctx); err != nil && ctx.Err() == nil {
		log.Error("reset", zap.Error(err))
	}
}
