package cluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rolloutTerm is how long the rollout Lease lasts without renewal, rolloutRenew
// how often its holder renews it.
const (
	rolloutTerm  = 600 * time.Second
	rolloutRenew = 5 * time.Second
)

// turnState says who has the rollout Lease.
type turnState string

const (
	turnUnknown turnState = "unknown" // The Lease has not been seen yet.
	turnOurs    turnState = "ours"    // This node has it.
	turnFree    turnState = "free"    // No node has it: this node may take it.
	turnTaken   turnState = "taken"   // Another node has it.
)

// turn is whose turn it is in a serial rollout. holder is the node that has
// taken the Lease, rest how long it may still keep it.
type turn struct {
	state  turnState
	holder string
	rest   time.Duration
}

// turnOf returns whose turn it is by the Lease, which is nil if absent and
// which the node hostname has seen unchanged for unchanged.
func turnOf(l *coordination.Lease, hostname string, unchanged time.Duration) turn {
	if l == nil || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		return turn{state: turnFree}
	}

	holder := *l.Spec.HolderIdentity
	if holder == hostname {
		return turn{state: turnOurs, holder: holder}
	}
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return turn{state: turnFree}
	}

	rest := time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second - unchanged
	if rest <= 0 {
		return turn{state: turnFree}
	}
	return turn{state: turnTaken, holder: holder, rest: rest}
}

// observedLease is when this node first saw the rollout Lease in its present
// form. The Lease expires by this node's clock, because the times in it are by
// the clock of the holder.
type observedLease struct {
	name string
	spec coordination.LeaseSpec

	// at is an uptime.
	at time.Duration
}

// next returns the observation of l at uptime: o if l has not changed.
func (o observedLease) next(l *coordination.Lease, uptime time.Duration) observedLease {
	if o.name == l.Name && reflect.DeepEqual(o.spec, l.Spec) {
		return o
	}
	return observedLease{name: l.Name, spec: l.Spec, at: uptime}
}

// rolloutAction is what to do with the rollout Lease.
type rolloutAction string

const (
	rolloutWait    rolloutAction = "wait"
	rolloutRenewal rolloutAction = "renew"
	rolloutRelease rolloutAction = "release" // It is the next node's turn.
)

// decideRollout decides what to do with the rollout Lease. The node releases it
// once it runs the new configuration and is ready. Until then it renews the
// Lease, unless the node refuses the configuration: then the Lease expires.
func decideRollout(w world, l *coordination.Lease, t turn) (rolloutAction, outcome) {
	p := w.pending
	switch {
	case t.state != turnOurs:
		return rolloutWait, outcome{}
	case w.ready == p.sum && w.status.Change == nil:
		return rolloutRelease, outcome{}
	case w.status.Offered == p.sum && (w.status.Refused || w.status.Held != nil):
		return rolloutWait, outcome{}
	}

	if at := renewRolloutAt(l, w.now); w.now.Before(at) {
		return rolloutWait, outcome{wake: at}
	}
	return rolloutRenewal, outcome{wake: w.now.Add(rolloutRenew)}
}

// renewRolloutAt returns when to renew the Lease. A renewal in the future,
// after the clock was set back, is due now.
func renewRolloutAt(l *coordination.Lease, now time.Time) time.Time {
	if l.Spec.RenewTime == nil || l.Spec.RenewTime.After(now) {
		return now
	}
	return l.Spec.RenewTime.Add(rolloutRenew)
}

// holdRollout makes l the rollout Lease of the node holder, renewed at now, to
// apply p.
func holdRollout(l *coordination.Lease, p *pendingConfig, holder string, now time.Time) {
	renewed := meta.NewMicroTime(now)
	term := int32(rolloutTerm / time.Second)

	l.OwnerReferences = []meta.OwnerReference{{
		APIVersion: "v1",
		Kind:       "Secret",
		Name:       p.secret,
		UID:        p.uid,
	}}

	if h := l.Spec.HolderIdentity; h == nil || *h != holder {
		l.Spec.AcquireTime = &renewed
	}

	l.Spec.HolderIdentity = &holder
	l.Spec.LeaseDurationSeconds = &term
	l.Spec.RenewTime = &renewed
}

// rolloutController keeps the Lease by which the nodes of a pool apply a
// configuration one after the other. It is watched while the Secret asks for
// that.
type rolloutController struct {
	api     *api
	watcher *watcher
	uptime  func() time.Duration

	// observed outlives the session.
	observed *observedLease

	// name is the name of the watched Lease, "" if none. stop ends its watch.
	name string
	stop context.CancelFunc

	// lease is the last known Lease, nil if absent, valid if seen.
	lease *coordination.Lease
	seen  bool

	// stale says that a write failed, so the Lease must be read again. The
	// watch reports nothing if nothing was written.
	stale bool
}

// turn returns whose turn it is in the rollout of the pending configuration.
func (c *rolloutController) turn(w world) turn {
	if !c.seen {
		return turn{state: turnUnknown}
	}
	return turnOf(c.lease, w.config.hostname(), w.uptime-c.observed.at)
}

// see records the present Lease, nil if absent.
func (c *rolloutController) see(l *coordination.Lease) {
	c.lease = l
	c.seen = true
	if l != nil {
		*c.observed = c.observed.next(l, c.uptime())
	}
}

func (c *rolloutController) step(ctx context.Context, w *world) (outcome, error) {
	if w.pending == nil || !w.pending.serial || w.node == nil {
		c.watch("")
		return outcome{}, nil
	}

	c.watch(w.pending.secret)
	if c.stale {
		if err := c.read(ctx); err != nil {
			return outcome{}, err
		}
	}

	var err error
	action, out := decideRollout(*w, c.lease, c.turn(*w))
	switch action {
	case rolloutRenewal:
		_, err = c.acquire(ctx, *w)
	case rolloutRelease:
		_, err = c.put(ctx, *w, func(l *coordination.Lease) { l.Spec = coordination.LeaseSpec{} })
	}
	return out, err
}

// acquire takes or renews the Lease to apply the pending configuration. It
// returns false if another node was faster.
func (c *rolloutController) acquire(ctx context.Context, w world) (bool, error) {
	return c.put(ctx, w, func(l *coordination.Lease) {
		holdRollout(l, w.pending, w.config.hostname(), w.now)
	})
}

// errTaken says that another node has the rollout Lease.
var errTaken = errors.New("another node has the Lease")

// put writes the Lease, unless another node has it, and reports whether it did.
// After an error the Lease may or may not have changed: the next step reads it
// again.
func (c *rolloutController) put(
	ctx context.Context, w world, edit func(*coordination.Lease),
) (bool, error) {
	unlessTaken := func(l *coordination.Lease) error {
		c.see(l)
		if c.turn(w).state == turnTaken {
			return errTaken
		}
		edit(l)
		return nil
	}

	l, err := c.api.putLease(ctx, c.lease, c.name, unlessTaken)
	c.see(l)
	if errors.Is(err, errTaken) {
		return false, nil
	}

	c.stale = err != nil
	return err == nil, err
}

// read reads the Lease.
func (c *rolloutController) read(ctx context.Context) error {
	l := &coordination.Lease{}
	err := c.api.lease(c.name, c.api.coordination.Get()).Do(ctx).Into(l)
	switch {
	case apierrors.IsNotFound(err):
		l = nil
	case err != nil:
		return fmt.Errorf("get Lease %s: %w", c.name, err)
	}

	c.see(l)
	c.stale = false
	return nil
}

// watch watches the Lease of that name; "" stops watching.
func (c *rolloutController) watch(name string) {
	if c.name == name {
		return
	}

	if c.stop != nil {
		c.stop()
	}

	c.name = name
	c.stop = nil
	c.lease = nil
	c.seen = false
	c.stale = false

	if name == "" {
		return
	}

	var ctx context.Context
	ctx, c.stop = context.WithCancel(c.watcher.ctx)
	q := byName(c.api.coordination, "leases", namespace, name)
	watchOne(ctx, c.watcher, q, &coordination.Lease{}, func(l *coordination.Lease, ok bool) {
		switch {
		case c.name != name:
		case !ok:
			c.see(nil)
		case c.lease == nil || !isOlder(l, c.lease):
			c.see(l) // Otherwise the answer to our own write was newer.
		}
	})
}
