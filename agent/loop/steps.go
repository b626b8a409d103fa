package loop

import (
	"context"
	"errors"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/metrics"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
)

// loop is what Run knows of the node.
type loop struct {
	*Agent
	status status.Status
	// shown is what was published last; false before the first time.
	shown     status.Status
	published bool
	current   generation.Manifest
	// pending is the change that has not proven itself, if there is one.
	pending   apply.Pending
	isPending bool
	// states are those of the units of current, once looked.
	states []unit.State
	looked bool
	// starts are the units of current that are not well, and were not before.
	starts starts
	// asked is what is wrong with what the node was asked to be, or with
	// applying it; failed what systemd could not do of the current generation.
	asked, failed *status.Error
	// refusal is the kind of asked, "" if that is not about a document.
	refusal status.Refusal
	// unfinished is what keeps the node between two generations, or from being
	// its current one.
	unfinished *status.Error
	// drifted is a managed path that something changed and that cannot be had.
	drifted *status.Error
	// given is what the source gave last, whole with what of it waits, version
	// what it calls that, content its files by digest.
	given   string
	whole   string
	version string
	content map[string]config.Content
	// noted are the notes that people have been told of last.
	noted []config.Note
	// began is when the change that is pending did, counters what became of others.
	began    time.Duration
	counters metrics.Counters
	// verdict is to be carried out; waiting is told when there is one.
	verdict health.Verdict
	waiting *Wish
	// wasReset says that this agent has carried out the reset, resetFailed what
	// went wrong with it.
	wasReset    bool
	resetFailed error

	// One thing at a time changes the node, beside the loop: busy while it does,
	// and done brings what to make of it. due is what comes next.
	busy bool
	// changing says that it makes the node something else: until it is done, nothing
	// is applied, however well the units are.
	changing bool
	done     chan func()
	others   *sync.WaitGroup
	due      struct{ resume, read, reach, judge, tidy, start bool }
	// touched are managed paths that something changed; guarded says that those of
	// the generation seen last are all watched, blind that none is any more.
	touched map[string]bool
	guarded bool
	blind   bool

	readAt, retryAt, reachAt, repairAt, lookAt, startAt, restAt alarm
}

// start does work beside the loop; what it returns is done by the loop.
func (l *loop) start(work func() func()) {
	l.busy = true
	l.others.Go(func() { l.done <- work() })
}

// next begins what is due, if nothing is under way.
func (l *loop) next(ctx context.Context) {
	if l.due.judge && !l.busy {
		l.due.judge = false
		l.look(ctx)
	}
	switch {
	case l.busy || ctx.Err() != nil:
	case l.status.Reset != nil:
		l.rest(ctx)
	case l.due.resume:
		l.due.resume = false
		l.resume(ctx)
	case l.verdict.Word == health.Good || l.verdict.Word == health.Bad:
		l.settleChange(ctx)
	case len(l.touched) > 0: // Before a source that never stops changing.
		l.repair(ctx)
	case l.due.read:
		l.due.read = false
		l.read(ctx)
	case l.due.reach:
		l.due.reach = false
		l.reach(ctx)
	case l.due.start && l.unfinished == nil:
		l.due.start = false
		l.startOwed(ctx)
	case l.due.tidy:
		l.due.tidy = false
		l.tidy()
	}
}

// rereads has the source read, after what is unfinished.
func (l *loop) rereads() { l.due.resume, l.due.read = l.due.resume || l.unfinished != nil, true }

// tidy gives back what a change has made room for, when nothing else is due.
func (l *loop) tidy() {
	l.start(func() func() {
		err := l.Engine.Tidy()
		return func() {
			l.restAt.soon(rest)
			if err != nil {
				l.warn("delete old generations", err)
			}
		}
	})
}

// rest is when, after a change, the memory that it took is given back.
const rest = time.Minute

// relax gives memory back: pools of the libraries let go of it at the second turn.
func (l *loop) relax() {
	l.others.Go(func() {
		debug.FreeOSMemory()
		debug.FreeOSMemory()
	})
}

// watch begins to watch the source, before the first read, so that no change
// is missed.
func (l *loop) watch(ctx context.Context) <-chan struct{} {
	if l.Source == nil {
		return nil
	}
	changed, err := l.Source.Watch(ctx)
	if err != nil {
		l.warn("watch the source", err)
		return nil
	}
	return changed
}

// resume completes an apply that was cut off and finds out what the node is. A
// unit that did not come up is no reason to try again.
func (l *loop) resume(ctx context.Context) {
	l.start(func() func() {
		resumed, err := l.Engine.Resume(ctx)
		return func() {
			if ctx.Err() == nil {
				l.resumed(ctx, resumed, err)
			}
		}
	})
}

func (l *loop) resumed(ctx context.Context, resumed apply.Resumed, err error) {
	l.unfinished = nil
	if resumed.Mended != "" {
		l.warn("the current generation was damaged", errors.New("the node went on with "+resumed.Mended))
	}
	switch {
	case err != nil && resumed.Finished != "" && !errors.Is(err, apply.ErrUnfinished):
		l.failed = Describe(err)
	case err != nil:
		l.Log.Error("resume", zap.Error(err))
		l.unfinished = Describe(err)
		l.retryAt.soon(retry)
	case resumed.Finished != "":
		l.Log.Info("finished an apply that was cut off", zap.String("generation", resumed.Finished))
	}
	l.countDrift(resumed.Repaired)
	l.cannotRepair(resumed.Drift)
	l.observe()
	if !l.due.read || l.isPending { // No unit may change any more before the verdict.
		l.look(ctx)
	}
}

// observe finds out which generation is current, and watches its paths.
func (l *loop) observe() {
	before := l.current
	var err error
	l.current, _, err = l.Engine.Current()
	if err != nil {
		l.warn("read the current generation", err)
	}
	if l.pending, l.isPending, err = l.Engine.Pending(); err != nil {
		l.warn("read the journal", err)
	}
	l.observeStarts(l.current.Name() == before.Name())
	if l.current.Name() == before.Name() {
		return
	}
	l.looked = false
	if before.Name() != "" {
		l.status.AppliedAt = 0
	}
	l.guard(before)
}

// concerns reports whether a change of the unit name matters.
func (l *loop) concerns(name string) bool {
	return slices.ContainsFunc(l.current.Units, func(u generation.Unit) bool { return u.Name == name })
}

// warn keeps a fact that a person should see, once.
func (l *loop) warn(what string, err error) {
	l.Log.Warn(what, zap.Error(err))
	text := what + ": " + err.Error()
	if !slices.Contains(l.status.Warnings, text) {
		l.status.Warnings = append(slices.Clone(l.status.Warnings), text)
	}
}

// guard watches the paths of the current generation, and then looks once at those
// that something may have touched before: all that are not watched already, as
// paths that were the same in the generation before.
func (l *loop) guard(before generation.Manifest) {
	if l.Drift == nil {
		return
	}
	paths := generation.Paths(l.current)
	err := l.Drift.Set(l.Root, slices.Concat(paths, generation.Ways(l.current)))
	if err != nil {
		l.warn("watch managed paths", err)
	}
	if err == nil && l.guarded {
		paths = generation.Changed(before, l.current)
	}
	l.guarded = err == nil && !l.blind
	l.touch(paths)
}

// unguard is for a watch that has ended: each change looks at all paths from now on,
// and so does the loop once, as the last change relied on it.
func (l *loop) unguard() {
	l.guarded, l.blind = false, true
	l.touch(generation.Paths(l.current))
}

// checkWatches takes in whether all managed paths are watched still. Until they were
// set again, each change looks at all of them.
func (l *loop) checkWatches() {
	if err := l.Drift.Err(); err != nil && l.guarded {
		l.guarded = false
		l.warn("watch managed paths", err)
		l.lookAt.soon(settle)
	}
}

// touch notes paths to look at.
func (l *loop) touch(paths []string) {
	for _, name := range paths {
		l.touched[name] = true
	}
}

// repair makes the managed paths that something touched what they should be.
func (l *loop) repair(ctx context.Context) {
	paths := slices.Sorted(maps.Keys(l.touched))
	clear(l.touched)
	content := l.content
	l.start(func() func() {
		repaired, err := l.Engine.Repair(ctx, paths, content)
		return func() {
			if ctx.Err() != nil {
				return
			}
			before := l.drifted
			l.cannotRepair(err)
			l.countDrift(repaired)
			if len(repaired) > 0 || before != l.drifted {
				l.look(ctx)
			}
		}
	})
}

// cannotRepair notes that a managed path cannot be had, to try again; nil that
// all can. A change is judged all the same.
func (l *loop) cannotRepair(err error) {
	switch {
	case err != nil:
		l.Log.Error("repair", zap.Error(err))
		l.drifted = Describe(err)
		l.repairAt.soon(retry)
	case l.repairAt.c == nil: // All paths were looked at since.
		l.drifted = nil
	}
}

// countDrift reports paths that something else had changed.
func (l *loop) countDrift(repaired []string) {
	if len(repaired) == 0 {
		return
	}
	l.Log.Warn("repaired what something else had changed", zap.Strings("paths", repaired))
	l.status.Drift.Repaired += len(repaired)
	l.status.Drift.Last, l.status.Drift.At = repaired[len(repaired)-1], l.Now()
	if l.Cluster != nil {
		l.Cluster.Event(true, "FileMismatch", "repaired what something else had changed: "+strings.Join(repaired[:min(5, len(repaired))], ", "))
	}
}

// settleChange carries out the verdict on the change that is pending.
func (l *loop) settleChange(ctx context.Context) {
	v, before := l.verdict, l.current
	l.verdict = health.Verdict{}
	if v.Word == health.Bad {
		l.Log.Warn("the change made the node worse", zap.String("generation", before.Name()), zap.String("reason", v.Reason))
	}
	l.start(func() func() {
		_, err := l.Engine.Settle(ctx, v)
		return func() {
			if ctx.Err() != nil {
				return
			}
			if err == nil && v.Word == health.Good {
				l.reportUnwell(v)
			}
			l.changed(ctx, err)
			if errors.Is(err, apply.ErrUnfinished) {
				l.waiting.fail(err)
				l.waiting = nil
			}
			if err == nil && v.Word == health.Good && l.Proven != nil {
				l.others.Go(func() { l.Proven(ctx) }) // It may take long, and changes nothing of the node.
			}
			if err == nil {
				l.counters.Applied(string(outcomeOf(v, before, l.current)), l.Now()-l.began)
			}
			l.tell(v, before)
			l.due.read = v.Word == health.Bad || l.due.read // A try may have kept the source waiting.
			l.due.read = l.due.read || before.Digest != l.given
		}
	})
}

// outcomeOf is what a verdict on the change to before has come to.
func outcomeOf(v health.Verdict, before, now generation.Manifest) apply.Outcome {
	switch {
	case v.Word == health.Good:
		return apply.Applied
	case before.Name() == now.Name():
		return apply.Failed
	}
	return apply.Reverted
}

// changed takes in what the engine made of the node.
func (l *loop) changed(ctx context.Context, err error) {
	l.observe()
	l.unfinished, l.failed, l.due.tidy = nil, nil, true
	switch {
	case errors.Is(err, apply.ErrUnfinished):
		l.Log.Error("apply", zap.Error(err))
		l.unfinished = Describe(err)
		l.retryAt.soon(retry)
	case err != nil:
		l.Log.Warn("units did not come up", zap.String("generation", l.current.Name()), zap.Error(err))
		l.failed = Describe(err)
	default:
		l.Log.Info("the node runs", zap.String("generation", l.current.Name()))
	}
	l.look(ctx)
}

// judge asks for a verdict on the change that is pending.
func (l *loop) judge(ctx context.Context) {
	if l.unfinished != nil || !l.isPending || !l.pending.Watched {
		return
	}
	if l.busy {
		l.due.judge = true
		return
	}
	v, err := l.Engine.Judge(ctx)
	if err != nil {
		l.warn("judge the change", err)
		return
	}
	l.status.Change = changeOf(l.pending, v)
	switch v.Word {
	case health.Good, health.Bad:
		l.verdict = v
	case health.Confirm:
		l.tell(v, l.current)
		fallthrough
	case health.Wait:
		l.lookAt.soon(max(settle, min(v.Next-l.Now(), time.Minute)))
	}
}

func changeOf(p apply.Pending, v health.Verdict) *status.Change {
	c := &status.Change{From: p.From, Good: p.Good, Waits: v.Reason}
	if p.Try != nil {
		c.Until = p.Try.Until
	}
	return c
}
