package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/drain"
	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/hint"
)

// drainState is how far the drain of the node is, for one turn.
type drainState struct {
	// turn is the ID of the turn.
	turn string

	// done says that the pods are gone, postponed why they cannot go yet. checked
	// says that the ledger was read after that, and lets the change begin.
	done      bool
	postponed string
	checked   bool
}

// isDrained reports whether the node is drained for the turn that it has.
func (t turnOfPool) isDrained() bool {
	return t.drain.done && t.drain.turn == t.kept.Holder.ID
}

// isPrepared reports whether a change that stops pods may begin in the turn that the
// node has.
func (t turnOfPool) isPrepared() bool { return t.isDrained() && t.drain.checked }

// postponed returns why the node cannot be drained for the turn that it has, ""
// for no reason.
func (t turnOfPool) postponed() string {
	if t.kept.Phase != turns.Holding || t.drain.turn != t.kept.Holder.ID {
		return ""
	}
	return t.drain.postponed
}

// drainAction is what to do about the pods of the node.
type drainAction string

const (
	drainNothing drainAction = "nothing"
	drainBegin   drainAction = "drain"
	drainRelease drainAction = "release" // Uncordon the Node.
)

// decideDrain decides whether the node is drained now for the change that it has
// a turn for, or released: the change is over, or it has no turn any more.
func decideDrain(w world, c change) drainAction {
	p := w.pending
	if w.node == nil || !w.fresh || p == nil || w.status.Phase == "" {
		return drainNothing
	}

	isHolding := w.turn.kept.Phase == turns.Holding
	switch {
	case isHolding && !c.isOver():
		if c.drains && p.policy != nil && p.policyErr == nil {
			return drainBegin
		}
	case drain.IsUnderWay(w.node):
		return drainRelease
	}
	return drainNothing
}

// drainController evicts the pods of the node before a change that stops them,
// and uncordons the Node after it.
type drainController struct {
	env     Env
	who     credentials.Credentials
	jobs    jobs
	inbox   inbox
	updates *updates
	system  *systemTurn
	count   *drainCount

	// running is what is being done in the background, stop ends it.
	running drainAction
	stop    context.CancelFunc

	// turn is the turn that the node was drained for last, since the uptime at which
	// that began in this run of the agent.
	turn  string
	since time.Duration

	// problem is why that has failed, and retryAt when it is tried again, after
	// pause, or when the clock is set back: setBacks is that of the world.
	problem  string
	retryAt  time.Time
	setBacks int
	pause    time.Duration
}

func (c *drainController) step(_ context.Context, w *world) (outcome, error) {
	wanted, isKnown := c.system.want()
	action := decideDrain(*w, changesOf(*w, c.updates.next(*w), wanted, isKnown)[0])
	switch {
	case c.stop != nil:
		if action != c.running {
			c.stop()
		}
	case action == drainNothing:
		return outcome{}, nil
	case w.now.Before(c.retryAt) && c.setBacks == w.setBacks:
		return outcome{wake: c.retryAt, blocked: c.problem}, nil
	case action == drainBegin:
		c.drain(w)
	case action == drainRelease:
		c.release(w)
	}

	if action == drainBegin {
		return outcome{blocked: "drain of the Node"}, nil
	}
	return outcome{}, nil
}

// drain evicts the pods. One that has failed for as long as a drain may take is
// postponed: nothing has changed yet, and others wait for the turn.
func (c *drainController) drain(w *world) {
	turn := w.turn.kept.Holder.ID
	if c.turn != turn {
		c.turn = turn
		c.since = w.uptime
	}
	policy := drain.Policy(w.pending.policy.Drain)
	began := w.uptime
	c.env.Log.Info("draining the Node", zap.String("turn", turn))

	var result drain.Result
	c.run(w, drainBegin, func(ctx context.Context, api *kubeletAPI) (err error) {
		result, err = drain.Drain(ctx, api, policy)
		return err
	}, func() {
		w.turn.drain = drainState{
			turn:      turn,
			done:      result.Postponed == "",
			postponed: result.Postponed,
		}
		c.report(result, c.env.Uptime()-began)
	}, func() {
		if w.turn.kept.Holder.ID != turn || c.env.Uptime()-c.since < policy.Timeout {
			return
		}
		result.Postponed = c.problem
		w.turn.drain = drainState{turn: turn, postponed: c.problem}
		c.report(result, c.env.Uptime()-began)
	})
}

// report reports how a drain ended.
func (c *drainController) report(r drain.Result, took time.Duration) {
	if r.Postponed == "" {
		c.count.drained.Add(1)
		c.inbox.event(false, "NodeDrained", fmt.Sprintf("the pods are evicted for a change, after %s",
			took.Round(time.Second)))
		return
	}

	c.count.postponed.Add(1)
	why := r.Postponed
	if len(r.Budgets) > 0 {
		why = "PodDisruptionBudget " + strings.Join(r.Budgets, ", ") + ": " + why
	}
	c.inbox.event(true, "DrainPostponed",
		fmt.Sprintf("the change is postponed: %.*s", maxMessage, why))
}

// release uncordons the Node. If its turn is used after all, it is drained again.
func (c *drainController) release(w *world) {
	w.turn.drain = drainState{}
	c.run(w, drainRelease, func(ctx context.Context, api *kubeletAPI) error {
		return drain.Release(ctx, api)
	}, func() { c.env.Log.Info("the Node is released") }, func() {})
}

// run runs a job in the background, and done after it if it has succeeded, or else
// failed, unless the job was ended.
func (c *drainController) run(
	w *world, action drainAction, job func(ctx context.Context, api *kubeletAPI) error,
	done, failed func(),
) {
	config := w.config
	name := w.node.Name
	jobs := c.jobs
	jobs.ctx, c.stop = context.WithCancel(c.jobs.ctx)
	jobs.post = func(_ context.Context, f func()) { c.jobs.post(c.jobs.ctx, f) }
	c.running = action

	var api *kubeletAPI
	jobs.run(func(ctx context.Context) (err error) {
		api, err = newKubeletAPI(c.env, config, c.who, name)
		if err != nil {
			return err
		}
		defer api.close()
		return job(ctx, api)
	}, func(err error) {
		isEnded := jobs.ctx.Err() != nil
		c.stop()
		c.stop = nil
		if api != nil && api.last != nil && !w.isStale(api.last) {
			w.setNode(api.last)
		}
		if err != nil {
			c.env.Log.Warn(string(action)+" the Node", zap.Error(err))
			c.problem = fmt.Sprintf("%s the Node: %s", action, hint.Line(err))
			c.pause = nextPause(c.pause, maxRejected)
			c.retryAt = c.env.Now().Add(c.env.about(c.pause))
			c.setBacks = w.setBacks
			if !isEnded {
				failed()
			}
			return
		}
		c.pause = 0
		done()
	})
}
