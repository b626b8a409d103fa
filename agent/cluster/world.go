package cluster

import (
	"cmp"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/status"
)

// world is what the controllers decide on: the node and its cluster as they
// were last seen. Decisions take it by value. The objects that it points to are
// shared with the watches and must not be changed.
type world struct {
	// now is the wall clock, uptime the time since kernel start.
	now    time.Time
	uptime time.Duration

	// setBacks counts how often the wall clock was set back. What waits for a time
	// looks again after that: it may be far away now.
	setBacks int

	// config is how the cluster is reached, bootID the kernel's boot ID.
	config Config
	bootID string

	// status is the last reported status. Its Phase is "" before the first.
	status status.Status

	// node is the Node as it was seen last, nil if there was none. nodeKnown says
	// that it is as the API server has it now, fresh that this session has seen it.
	node      *core.Node
	nodeKnown bool
	fresh     bool

	// absent is a Node that was deleted since it was last seen.
	absent absence

	// delay is how long the Node's annotation has changes wait.
	delay time.Duration

	// secret is the name of the Secret with the configuration. pending is the
	// configuration in it, nil until it is known, and released the
	// configuration that the node was given last, nil if none.
	secret   string
	pending  *pendingConfig
	released *pendingConfig

	// turn is the node's turn by the policy of its pool. restarting says that
	// services that an annotation names are being restarted.
	turn       turnOfPool
	restarting bool

	// carried is what the running configuration has for the node agent.
	carried carried

	// ready is the digest of the configuration that the Node may report as
	// applied, "" if none. reported is the digest that it reports, "" before
	// the first report. announced is the generation of which an Event has said that it
	// is applied.
	ready, reported, announced string

	// updating is the step of an update in place that is under way,
	// [inplace.Nothing] if none. renewing says that the next certificate is
	// requested, ending that the session ends once no step is under way.
	updating         inplace.Step
	renewing, ending bool
}

// beginSession forgets what counts for one session only.
func (w *world) beginSession() {
	w.fresh = false
	w.loseNode()
	w.updating = inplace.Nothing
	w.renewing = false
	w.ending = false
}

// isOver reports whether the session ends now.
func (w world) isOver() bool { return w.ending && w.updating == inplace.Nothing }

// tick sets the clocks. If the wall clock was set back, the delay of the
// pending configuration begins again.
func (w *world) tick(now time.Time, uptime time.Duration) {
	if now.Sub(w.now) < uptime-w.uptime-time.Second {
		w.setBacks++
	}
	w.now = now
	w.uptime = uptime

	if w.pending != nil && w.pending.since.After(now) {
		pending := *w.pending
		pending.since = now
		w.pending = &pending
	}
}

// setNode records the newest version of the Node, nil if it does not exist.
func (w *world) setNode(n *core.Node) {
	switch {
	case n != nil:
		w.absent = absence{}
	case w.node != nil:
		w.absent = absence{name: w.node.Name, since: w.now, last: w.uptime}
	}

	w.node = n
	w.nodeKnown = true
	w.fresh = true
	w.delay = delay(n, w.delay)
}

// loseNode says that the API server does not tell what becomes of the Node. One that
// is gone may be back, with pods, and one that was there may be another one, without
// the mark of a turn.
func (w *world) loseNode() { w.nodeKnown = false }

// setPending records the configuration in the Secret. Its delay does not begin
// again while the text is the same.
func (w *world) setPending(p pendingConfig) {
	if w.pending != nil && w.pending.base() == p.base() {
		p.since = w.pending.since
		if len(p.references) > 0 {
			p = p.with(w.pending.values, w.pending.areKnown)
		}
	}
	w.pending = &p
}

// changes reports whether the node was given a configuration before.
func (w world) changes() bool { return w.released != nil && w.released.text != nil }

// labelled returns config with the Kubernetes version that the running
// configuration carries, if any.
func (w world) labelled() Config {
	c := w.config
	c.KubernetesVersion = cmp.Or(w.carried.kubernetesVersion, c.KubernetesVersion)
	return c
}

// link returns l with what the world says of the connection.
func (w world) link(l status.Cluster) status.Cluster {
	l.Server = w.config.Server
	l.Secret = w.secret
	l.Ready = isNodeReady(w.node)
	l.Turn = w.turn.status()
	l.Node = ""
	if w.node != nil {
		l.Node = w.node.Name
	}
	return l
}

// isStale reports whether n is an older version of the Node than this session
// has seen. The answer to a patch may be newer than what a watch has.
func (w world) isStale(n *core.Node) bool { return w.fresh && w.node != nil && isOlder(n, w.node) }

// isOlder reports whether o is an older version of the known object.
func isOlder(o, known meta.Object) bool {
	if o.GetUID() != known.GetUID() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(),
		known.GetResourceVersion())
	return err == nil && order < 0
}

// isNodeReady reports whether n has condition Ready=True.
func isNodeReady(n *core.Node) bool {
	return n != nil && slices.ContainsFunc(n.Status.Conditions, func(c core.NodeCondition) bool {
		return c.Type == core.NodeReady && c.Status == core.ConditionTrue
	})
}

// delay returns the delay in the Node's annotation, or the previous one if it
// cannot be read.
func delay(n *core.Node, before time.Duration) time.Duration {
	if n == nil {
		return before
	}
	d, err := time.ParseDuration(n.Annotations[delayAnnotation])
	if err != nil || d < 0 {
		return before
	}
	return d
}
