package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/drain"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/hint"
)

// turnName is the record of the turn.
const turnName = "var/lib/loam/turn.json"

// manyNodes is the size of a pool above which the metadata of its Nodes is not
// listed unless it is needed: a Node has about 2 KB.
const manyNodes = 250

// windowSpread is within which time the nodes look at the ledger when a window opens,
// roughly.
const windowSpread = 10 * time.Second

// maxTurnSteps limits the steps of a turn in one step of the controller.
const maxTurnSteps = 16

// turnOfPool is the node's turn by the policy of its pool.
type turnOfPool struct {
	// kept is what the disk has of it.
	kept turns.Turn

	// byPolicy says that the nodes of the pool take turns, as far as is known.
	byPolicy bool

	// classified is what a configuration disturbs.
	classified classified

	// waits is why the node has no turn, "" for no reason, and stopped is
	// [turns.Decision.Stopped].
	waits, stopped string

	// asked is what the node asks for a turn for.
	asked asked

	// problem is what is not as the policy means it, "" for nothing.
	problem string

	// overdue is the ID of the turn that was last reported as overdue.
	overdue string

	// drain is the drain of the node for its turn.
	drain drainState

	// retrying says that the configuration is being applied once more that has
	// failed: what the status says of it may be of the time before.
	retrying bool
}

// classified is what the configuration sum disturbs on a node that runs
// generation.
type classified struct {
	sum, generation string
	class           turns.Class
}

// asked is what a node asks for a turn for, and since when in this run of the agent.
// It is zero while it asks for none.
type asked struct {
	target string
	since  time.Time
}

// next returns what the node asks for when c is the first of its changes.
func (a asked) next(c change, phase turns.Phase, now time.Time) asked {
	switch {
	case c.need != turns.NeedTurn || phase == turns.Holding:
		return asked{}
	case a.target == c.target && !a.since.IsZero():
		return a
	}
	return asked{c.target, now}
}

// class returns what the pending configuration disturbs, false if that is not
// known.
func (t turnOfPool) class(w world) (turns.Class, bool) {
	c := t.classified
	return c.class, c.sum != "" && c.sum == w.pending.sum && c.generation == w.status.Generation
}

// status returns the turn for the status.
func (t turnOfPool) status() status.Turn {
	isGiven := t.kept.Phase == turns.Returning && t.kept.Outcome.How != turns.NeedReturn
	if t.kept.Phase != turns.Holding && !isGiven {
		return status.Turn{
			Waits:      t.waits,
			WaitsSince: t.asked.since,
			Stopped:    t.stopped,
			Problem:    t.problem,
		}
	}
	h := t.kept.Holder
	return status.Turn{
		For:     cmp.Or(h.Version, h.Target, "a restart of services"),
		Class:   h.Class.String(),
		Since:   h.Since,
		Overdue: t.overdue == h.ID,
		Problem: t.problem,
	}
}

// isVoid reports whether the turn that the node has counts no more: its Node was
// deleted, and is another one now. A change that has begun is completed; another
// turn is taken for one that has not.
func (t turnOfPool) isVoid(n *core.Node) bool {
	return t.kept.Phase == turns.Holding && n != nil && string(n.UID) != t.kept.Holder.UID
}

// isForConfiguration reports whether the node has its turn for a configuration.
func (t turnOfPool) isForConfiguration() bool {
	return t.kept.Phase == turns.Holding && t.kept.Holder.Version == "" &&
		t.kept.Holder.Target != ""
}

// isForRestart reports whether the node has its turn to restart services.
func (t turnOfPool) isForRestart() bool {
	return t.kept.Phase == turns.Holding && t.kept.Holder.Target == ""
}

// isForSystem reports whether the node has its turn for another system.
func (t turnOfPool) isForSystem() bool {
	return t.kept.Phase == turns.Holding && t.kept.Holder.Version != ""
}

// turnRecord is turnName.
type turnRecord struct {
	turns.Turn

	// ByPolicy says that the nodes of the pool take turns.
	ByPolicy bool `json:"byPolicy,omitempty"`
}

// loadTurn returns the turn of an earlier run. A record that cannot be read is
// no turn: the mark of the Node then keeps the node from taking another, and until
// the policy is known, no upgrade restarts the machine.
func loadTurn(root *os.Root, log *zap.Logger) turnOfPool {
	var r turnRecord
	if _, err := durable.ReadJSON(root.FS(), turnName, &r); err != nil {
		log.Error("read the turn", zap.Error(err))
		return turnOfPool{byPolicy: true}
	}
	return turnOfPool{kept: r.Turn, byPolicy: r.ByPolicy}
}

// saveTurn replaces the record of the turn.
func saveTurn(dir *durable.Dir, t turnRecord) error {
	return writeRecord(dir, "turn", turnName, t)
}

// turnController takes and gives the node's turn in the ledger of its pool.
type turnController struct {
	api     *api
	env     Env
	jobs    jobs
	inbox   inbox
	updates *updates
	system  *systemTurn
	count   *turnCount

	// classifies is the configuration that is being classified.
	classifies classified

	// seen is what was read since the last write. kept is what was seen before one that
	// another node preceded, or when the Nodes of a large pool were listed, and conflicts
	// how many did since the Nodes were listed.
	seen      *turns.Seen
	kept      keptList
	conflicts int

	// lease is the Lease of the ledger, absent says that it is none, and created is the
	// version of the one that this node has created. glance is what is known of the last
	// list of the Nodes.
	lease   *coordination.Lease
	absent  bool
	created string
	glance  *turns.Glance

	// readAt is the uptime at which the ledger was asked for last, changed that at which
	// its version, or that it is absent, was first seen, and listed that of the last list
	// of the Nodes, or at which the node began to ask for a turn.
	readAt  time.Duration
	changed time.Duration
	listed  time.Duration

	// until is when to look again, unless what it waits for has changed, or the clock
	// was set back: setBacks is that of the world.
	until    time.Time
	waitsFor string
	setBacks int

	// policyErr is the last error of a policy that was reported.
	policyErr string
}

func (c *turnController) step(ctx context.Context, w *world) (outcome, error) {
	c.reportPolicy(*w)
	c.reportLabels(w)
	overdue := c.reportOverdue(w)

	out, err := c.takeTurn(ctx, w)
	if !overdue.IsZero() && (out.wake.IsZero() || overdue.Before(out.wake)) {
		out.wake = overdue
	}
	return out, err
}

// takeTurn does what comes next for the changes of the node.
func (c *turnController) takeTurn(ctx context.Context, w *world) (outcome, error) {
	c.classify(w)
	if err := c.learnPolicy(w); err != nil {
		return outcome{}, err
	}
	defer func() { c.system.grant(takesNoTurns(*w), grantedSystem(*w)) }()
	if !w.nodeKnown || w.pending == nil {
		return outcome{}, nil // It may have a mark and a policy.
	}

	wanted, isKnown := c.system.want()
	changes := changesOf(*w, c.updates.next(*w), wanted, isKnown)
	if asked := w.turn.asked.next(changes[0], w.turn.kept.Phase, w.now); asked != w.turn.asked {
		w.turn.asked = asked
		c.listed = w.uptime
		c.glance = nil
		c.kept = keptList{}
	}
	if w.pending.policyErr != nil && w.turn.kept.Phase != turns.Over {
		// How many failures halt, and which Nodes are of the pool, is not known.
		w.turn.waits = c.policyErr
		return outcome{blocked: w.turn.waits}, nil
	}
	isGiven := changes[0].isOver() || w.turn.kept.Phase == turns.Returning
	if isGiven && w.node != nil && drain.IsUnderWay(w.node) {
		return outcome{}, nil // The Node is uncordoned before its turn is given.
	}
	waitsFor := waitingOf(*w, changes)
	if waitsFor == c.waitsFor && w.now.Before(c.until) && c.setBacks == w.setBacks {
		return outcome{wake: c.until, blocked: w.turn.waits}, nil
	}
	c.waitsFor = waitsFor
	c.until = time.Time{}
	c.setBacks = w.setBacks

	if changes[0].need == turns.NeedNothing && w.turn.kept.Phase == turns.Over {
		w.turn.waits = c.policyErr
		w.turn.stopped = ""
	}

	out, err := c.advance(ctx, w, changes)
	out.blocked = w.turn.waits
	return out, err
}

// learnPolicy records whether the nodes of the pool take turns: an upgrade has to
// know that even if the API server is not reached.
func (c *turnController) learnPolicy(w *world) error {
	if w.pending == nil || (w.pending.policy != nil) == w.turn.byPolicy {
		return nil
	}
	byPolicy := w.pending.policy != nil
	if err := saveTurn(c.env.records(), turnRecord{w.turn.kept, byPolicy}); err != nil {
		return err
	}
	w.turn.byPolicy = byPolicy
	return nil
}

// takesNoTurns reports whether the node may restart at any time: its pool has no
// policy, or the node has no Node and so no workload.
func takesNoTurns(w world) bool {
	return !w.turn.byPolicy || (w.nodeKnown && w.node == nil)
}

// waitingOf returns what a node waits with: if it changes, the node looks at the
// ledger at once.
func waitingOf(w world, changes []change) string {
	text := fmt.Sprint(w.turn.kept.Phase)
	for _, c := range changes {
		text += fmt.Sprint(c.need, c.target, c.own, c.checks)
	}
	if p := w.pending; p != nil {
		text += fmt.Sprint(p.sum, p.revision)
	}
	if n := w.node; n != nil {
		text += fmt.Sprint(n.UID, n.Labels[pinnedLabel], isPinned(n))
	}
	return text
}

// advance does the steps of the turn until it waits. A turn that begins wakes
// the release.
func (c *turnController) advance(
	ctx context.Context, w *world, changes []change,
) (outcome, error) {
	before := w.turn.kept.Phase
	for range maxTurnSteps {
		var views []turns.View
		for _, change := range changes {
			views = append(views, c.view(*w, change))
		}
		view, step := turns.First(views)

		switch step.Kind {
		case turns.Nothing, turns.Proceed:
			if step.Kind == turns.Proceed {
				c.seen = nil // A drain and a change take long.
			}
			if view.Checks {
				w.turn.drain.checked = true
				return outcome{wake: w.now}, nil
			}
			if before != w.turn.kept.Phase {
				return outcome{wake: w.now}, nil
			}
			return outcome{}, nil
		case turns.Await:
			c.await(w, step.Decision)
			return outcome{wake: c.until}, nil
		}

		if err := c.do(ctx, w, view, step); err != nil {
			c.seen = nil
			return outcome{}, err
		}
		if !c.until.IsZero() {
			return outcome{wake: c.until}, nil
		}
		if step.Kind == turns.Save {
			return outcome{wake: w.now}, nil // What needs a turn is another change now.
		}
	}
	return outcome{wake: w.now.Add(c.env.about(retryStep))}, nil
}

// view returns what the node knows that is about to do a change.
func (c *turnController) view(w world, change change) turns.View {
	v := turns.View{
		Turn:   w.turn.kept,
		Need:   change.need,
		Checks: change.checks,
		Why:    change.why,
		Seen:   c.seen,
		ID:     rand.Text(),
		Now:    w.now,
		Me: turns.Me{
			Pool:      poolOf(w),
			Nodes:     selectorOf(w),
			Machine:   w.config.Machine,
			Target:    change.target,
			Own:       change.own,
			Version:   change.version,
			Revision:  change.revision,
			Class:     change.class,
			Unchanged: w.uptime - c.changed,
			Listed:    w.uptime - c.listed,
			Glance:    c.glance,
			Created:   c.lease != nil && c.lease.ResourceVersion == c.created,
		},
	}

	if p := w.pending; p != nil && p.policy != nil {
		v.Policy = *p.policy
	}
	if n := w.node; n != nil {
		_, canary := n.Labels[canaryLabel]
		_, v.Me.ControlPlane = n.Labels[controlPlaneLabel]
		if isPinned(n) {
			v.Me.Pinned = cmp.Or(n.Labels[pinnedLabel], "by its label "+pinnedLabel)
		}
		v.Mark = n.Annotations[turnAnnotation]
		v.Failure = n.Annotations[failureAnnotationOf(change.version)]
		v.Me.Node = n.Name
		v.Me.UID = string(n.UID)
		v.Me.Zone = n.Labels[zoneLabel]
		v.Me.Rack = n.Labels[v.Policy.RackLabel]
		v.Me.Canary = canary
		v.Tried = turns.ParseTried(n.Annotations[canaryTriedAnnotation])
	}
	return v
}

// poolOf returns the name of the node's pool, which is that of its ledger.
func poolOf(w world) string {
	if w.node != nil && w.node.Labels[poolLabel] != "" {
		return w.node.Labels[poolLabel]
	}
	return strings.TrimPrefix(w.secret, "gardener-node-agent-")
}

// await lets the node look again when the decision says.
func (c *turnController) await(w *world, d turns.Decision) {
	c.seen = nil
	c.until = w.now.Add(max(c.env.about(d.Until.Sub(w.now)), time.Second))
	if d.Opens {
		c.until = d.Until.Add(c.env.about(windowSpread))
	}
	if w.turn.waits != d.Why {
		c.env.Log.Info("no turn yet", zap.String("reason", d.Why))
	}
	w.turn.waits = d.Why
	w.turn.stopped = d.Stopped
}

// do does one step.
func (c *turnController) do(
	ctx context.Context, w *world, v turns.View, step turns.Step,
) error {
	switch step.Kind {
	case turns.Read:
		return c.read(ctx, w)
	case turns.List:
		return c.list(ctx, *w, v.Me, step.Brief)
	case turns.Create:
		c.seen = nil
		lease, err := c.api.createLedger(ctx, c.lease, ledgerName(*w), w.now)
		if lease != nil {
			c.created = lease.ResourceVersion
		}
		return err
	case turns.Write:
		return c.write(ctx, w, v, step)
	case turns.Save:
		return c.save(w, step.Turn)
	case turns.Mark:
		c.seen = nil
		mark := step.Turn.Holder
		mark.Ledger = ledgerName(*w)
		return c.patch(ctx, w, map[string]any{turnAnnotation: mark.String()})
	case turns.Note:
		c.seen = nil
		return c.patch(ctx, w, map[string]any{
			failureAnnotationOf(step.Failure.Version): step.Failure.String(),
		})
	case turns.NoteTried:
		c.seen = nil
		return c.patch(ctx, w, map[string]any{canaryTriedAnnotation: step.Tried.String()})
	case turns.Unmark:
		c.seen = nil
		changes := map[string]any{turnAnnotation: nil}
		if failed := failureAnnotationOf(v.Me.Version); step.Clears && v.Failure != "" {
			changes[failed] = nil
		}
		err := c.api.patchSeen(ctx, w, changes)
		if apierrors.IsConflict(err) {
			c.until = c.env.Now().Add(c.env.about(conflictPause))
			return nil
		}
		return err
	}
	return nil
}

// patch sets annotations of the own Node; nil removes one.
func (c *turnController) patch(ctx context.Context, w *world, annotations map[string]any) error {
	return c.api.patchAnnotations(ctx, w, annotations)
}

func (c *turnController) save(w *world, t turns.Turn) error {
	if w.turn.kept.Phase == turns.Over {
		t.Ledger = ledgerName(*w)
	}
	if err := saveTurn(c.env.records(), turnRecord{t, w.turn.byPolicy}); err != nil {
		return err
	}

	if t.Phase == turns.Holding && !isBrief(t.Holder) {
		c.inbox.event(false, "TurnTaken", fmt.Sprintf("the node has its turn in pool %s for %s",
			poolOf(*w), describe(t.Holder)))
	}
	if w.turn.kept.Phase == turns.Holding {
		c.seen = nil
	}
	w.turn.kept = t
	w.turn.waits = ""
	w.turn.stopped = ""
	c.env.Log.Info("turn", zap.String("phase", string(t.Phase)), zap.String("id", t.Holder.ID))
	return nil
}

// isBrief reports whether a turn is for a configuration that leaves pods running: it is
// over within seconds, and the Events of what restarts and of the configuration say so.
// Each Event is a write more, by each node of a pool.
func isBrief(h turns.Holder) bool {
	return h.Version == "" && h.Target != "" && h.Class <= turns.Kubelet
}

// describe says what a turn is for.
func describe(h turns.Holder) string {
	switch {
	case h.Version != "":
		return "system " + h.Version
	case h.Target == "":
		return "a restart of services"
	}
	return fmt.Sprintf("configuration %.12s", h.Target)
}

// write writes the ledger, unless another node was faster.
func (c *turnController) write(
	ctx context.Context, w *world, v turns.View, step turns.Step,
) error {
	seen := *c.seen
	halted := newlyHalted(*seen.Ledger, step.Ledger)
	c.seen = nil
	lease, err := c.api.writeLedger(ctx, c.lease, step.Ledger, w.now)
	if err != nil {
		return err
	}
	if lease == nil {
		c.keep(*w, seen)
		c.until = c.env.Now().Add(c.env.about(pauseAfter(c.conflicts, c.env.Uptime()-c.readAt)))
		c.conflicts++
		return nil
	}

	c.lease = lease
	c.changed = w.uptime
	c.conflicts = 0
	c.seen = &turns.Seen{Ledger: &step.Ledger}
	c.reportGiven(*w, v, step)
	if halted != "" {
		c.inbox.event(true, "RolloutHalted", fmt.Sprintf("the rollout of pool %s is halted: %s",
			poolOf(*w), halted))
	}
	if step.Save {
		return c.save(w, step.Turn)
	}
	return nil
}

// pauseAfter returns the pause after a write that another node preceded, as before it did
// so many, where the ledger was read so long ago.
func pauseAfter(conflicts int, took time.Duration) time.Duration {
	return max(conflictPause<<min(conflicts, maxDoubled), min(aside*took, maxConflictPause))
}

// newlyHalted returns why a write has halted a rollout, "" if it has not.
func newlyHalted(before, after turns.Ledger) string {
	if before.Halted == "" && after.Halted != "" {
		return after.Halted
	}
	for target, r := range after.Systems {
		if before.Systems[target].Halted == "" && r.Halted != "" {
			return r.Halted
		}
	}
	return ""
}

// classify finds out what the pending configuration disturbs, beside the session.
// If that cannot be found out, it counts as if pods could stop.
func (c *turnController) classify(w *world) {
	p := w.pending
	if p == nil || p.policy == nil || w.status.Phase == "" || w.status.Phase == status.Applying ||
		w.status.Change != nil || w.awaitsValues() {
		return
	}
	if isReleased(*w) || !needsTurn(*w) {
		return
	}

	key := classified{sum: p.sum, generation: w.status.Generation}
	if _, known := w.turn.class(*w); known || c.classifies == key {
		return
	}
	c.classifies = key

	done := func(class turns.Class, err error) {
		if err != nil {
			c.env.Log.Warn("find out what the configuration disturbs", zap.Error(err))
			class = turns.Pods
		}
		c.classifies = classified{}
		key.class = class
		w.turn.classified = key
	}
	if c.env.Classify == nil {
		done(turns.Kubelet, nil)
		return
	}

	class := turns.None
	c.jobs.run(func(ctx context.Context) (err error) {
		class, err = c.env.Classify(ctx, p.text, p)
		return err
	}, func(err error) { done(class, err) })
}

// reportPolicy reports a policy that cannot be read, once.
func (c *turnController) reportPolicy(w world) {
	problem := ""
	if p := w.pending; p != nil && p.policyErr != nil {
		problem = hint.Line(p.policyErr)
	}
	if problem != "" && problem != c.policyErr {
		c.inbox.event(true, "RolloutPolicyInvalid",
			fmt.Sprintf("the policy of the pool is refused: %.*s", maxMessage, problem))
	}
	c.policyErr = problem
}

// reportGiven reports that the node gives its turn by a write.
func (c *turnController) reportGiven(w world, v turns.View, step turns.Step) {
	_, holds := step.Ledger.Holders[v.Me.Machine]
	_, isRestored := step.Ledger.Restored[v.Me.Machine]
	if holds || isRestored || v.Turn.Phase != turns.Returning ||
		v.Turn.Outcome.How == turns.NeedReturn {
		return
	}

	how := ""
	switch v.Turn.Outcome.How {
	case turns.NeedGive:
		how = "it is done"
		c.count.done.Add(1)
		isConfiguration := v.Turn.Holder.Version == "" && v.Turn.Holder.Target != ""
		if isConfiguration && w.announced == w.status.Generation {
			return // The Event OSCApplied says so.
		}
	case turns.NeedFail:
		how = "it has failed"
		c.count.failed.Add(1)
	default:
		how = "it could not begin"
		c.count.postponed.Add(1)
	}
	c.inbox.event(v.Turn.Outcome.How == turns.NeedFail, "TurnGiven", fmt.Sprintf(
		"the node has given its turn in pool %s for %s: %s", poolOf(w), describe(v.Turn.Holder), how))
}

// reportOverdue reports a turn that the node has for too long, once. It returns when
// a turn will be overdue, zero if never.
func (c *turnController) reportOverdue(w *world) time.Time {
	h := w.turn.kept.Holder
	p := w.pending
	if w.turn.kept.Phase != turns.Holding || w.turn.overdue == h.ID ||
		p == nil || p.policy == nil || p.policyErr != nil {
		return time.Time{}
	}

	limit := p.policy.Overdue[h.Class]
	due := h.Since.Add(limit)
	if w.now.Before(due) {
		return due
	}
	w.turn.overdue = h.ID
	c.inbox.event(true, "TurnOverdue", fmt.Sprintf(
		"the node has its turn in pool %s for %s for more than %s: it counts as failed",
		poolOf(*w), describe(h), limit))
	return time.Time{}
}

// reportLabels reports that the Node has no label that the policy needs, once.
func (c *turnController) reportLabels(w *world) {
	problem := missingLabel(*w)
	if problem != "" && problem != w.turn.problem {
		c.inbox.event(true, "RolloutLabelMissing", problem)
	}
	w.turn.problem = problem
}

// missingLabel returns which label of the policy the Node has not, "" for none.
func missingLabel(w world) string {
	p := w.pending
	if w.node == nil || p == nil || p.policy == nil || p.policyErr != nil {
		return ""
	}
	for _, need := range []struct {
		field, label string
		most         turns.Amount
	}{
		{"perZone", zoneLabel, p.policy.PerZone},
		{"perRack", p.policy.RackLabel, p.policy.PerRack},
	} {
		if need.most != (turns.Amount{}) && w.node.Labels[need.label] == "" {
			return fmt.Sprintf("%s of the policy counts all Nodes without the label %s as one, "+
				"and this Node has none; hint: label it, or remove %[1]s", need.field, need.label)
		}
	}
	return ""
}

// isAway reports whether a Node counts as away by its STATUS, as kubectl prints
// it.
func isAway(status string) bool { return status != string(core.NodeReady) }
