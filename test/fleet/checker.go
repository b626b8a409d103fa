package fleet

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/test/apiserver"
)

// Limits are how many nodes may be away at once: in all, of a zone and of a rack.
// They are those of the policy, as numbers; 0 does not limit.
type Limits struct{ Total, Zone, Rack int }

// or returns limits that allow what l or other allows.
func (l Limits) or(other Limits) Limits {
	more := func(a, b int) int {
		if a == 0 || b == 0 {
			return 0
		}
		return max(a, b)
	}
	return Limits{more(l.Total, other.Total), more(l.Zone, other.Zone), more(l.Rack, other.Rack)}
}

// place is where a node is.
type place struct{ zone, rack string }

// seenNode is a Node as the checker last saw it written.
type seenNode struct {
	// runs is the digest of the configuration that it says it runs, mark the ID of the
	// turn that marks it, and target what that turn is for; "" for none.
	runs, mark, target string

	// isAway says that it is not Ready or is cordoned, isOther that the policy does not
	// select it: then only its turn counts.
	isAway, isOther bool

	// failed are the targets of which it remembers a failure.
	failed []string
}

// checker checks what must hold at any time. Each check is at one write of the API
// server, or when a node begins to be disturbed:
//
//   - A turn is taken only in a running ledger, for a target that is not halted,
//     also if the ledger was deleted since the halt. With it, no more nodes are
//     away than the policy allows: those with a turn, also if their Node is not
//     selected any more, and those of the selected Nodes that are not Ready or are
//     cordoned in the list that its node has read for it. An operator who
//     cordons a Node after that list may make them more.
//   - A node is disturbed only with a turn in the ledger and a mark on its Node, for
//     what these are for or on the way back from there, and gives its turn when it is
//     not disturbed any more. No more nodes are disturbed at once than the policy
//     allows.
//   - A turn counts once: as done, failed or postponed.
//   - No agent removes the cordon of an operator.
//
// Three things may take a node out of the counts, and no others:
//
//   - Its Node is deleted. It has no pods then, so its turn does not count, and its
//     agent gives it its configuration at once. The Node may be back before that
//     restarts anything, so the node counts from a minute after that, or from a turn
//     that it takes then.
//   - It has a clone that was made while its machine had a turn. Nothing tells the two
//     apart, so neither is counted until another turn is taken under that name, and
//     each of them has seen that the one before is over.
//   - The policy becomes stricter. What it allowed before is allowed for as long as
//     a node may not have seen the new one, and until the turns of that time end.
type checker struct {
	places map[string]place

	mu sync.Mutex

	// limits are those of the policy. Until learned, those before are allowed, too.
	limits, before Limits
	learned        time.Time

	// ledger is the last one, written says that there is one.
	ledger  turns.Ledger
	written bool

	// list is what the node that writes now has listed before, nil if that is not
	// known.
	list map[string]seenNode

	// taken is when the turns in the ledger were taken, by ID.
	taken map[string]time.Time

	// halted are the targets that were halted, until an operator resumes. unnoted
	// are the nodes whose change to a target has failed and whose Node does not say
	// so, by target: there was none at the time, it was deleted, or a later change
	// went well.
	halted  map[string]bool
	unnoted map[string]map[string]bool

	// nodes are the Nodes, numbers how many of them run each configuration. digests are
	// those of the configurations, by what they write to /etc/a.
	nodes   map[string]seenNode
	numbers map[string]int
	digests map[string]string

	// cordons are the Nodes that an operator has cordoned, shared the turns that
	// clones have, too, by the name of the Node.
	cordons map[string]bool
	shared  map[string]sharedTurn

	// reborn are Nodes that were deleted, and from when on they count again.
	reborn map[string]time.Time

	// disturbed counts what disturbs the pods of each node now, and touched how
	// often that began.
	disturbed map[string]int
	touched   map[string]int

	// most is the most nodes that were disturbed at once.
	most int

	faults []string
}

// sharedTurn is a turn that several machines of one name have on their disks.
type sharedTurn struct {
	id       string
	machines []*member
}

// isKept reports whether a machine that may run has the turn still.
func (s sharedTurn) isKept() bool {
	return slices.ContainsFunc(s.machines, func(m *member) bool {
		t := m.turn()
		return t.Phase != turns.Over && t.Holder.ID == s.id
	})
}

// rebirth is within what time a node marks a Node that was deleted and is back.
const rebirth = time.Minute

func newChecker(limits Limits) *checker {
	return &checker{
		limits:    limits,
		before:    limits,
		places:    map[string]place{},
		taken:     map[string]time.Time{},
		halted:    map[string]bool{},
		unnoted:   map[string]map[string]bool{},
		nodes:     map[string]seenNode{},
		numbers:   map[string]int{},
		digests:   map[string]string{},
		cordons:   map[string]bool{},
		shared:    map[string]sharedTurn{},
		reborn:    map[string]time.Time{},
		disturbed: map[string]int{},
		touched:   map[string]int{},
	}
}

// fault records that something does not hold. mu must be held.
func (c *checker) fault(format string, args ...any) {
	if len(c.faults) < 10 {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

// watched checks a write.
func (c *checker) watched(w apiserver.Write) {
	c.mu.Lock()
	defer c.mu.Unlock()

	before, wasNode := w.Before.(*core.Node)
	after, isNode := w.After.(*core.Node)
	if wasNode || isNode {
		c.wroteNode(before, after)
		return
	}

	switch after := w.After.(type) {
	case *core.Secret:
		text := string(after.Data["osc.yaml"])
		if match := contentOfA.FindStringSubmatch(text); after.Name == secretName && match != nil {
			c.digests[match[1]] = sum(text)
		}
	case *coordination.Lease:
		if after.Name == ledgerName {
			c.wroteLedger(after)
		}
	case nil:
		if lease, ok := w.Before.(*coordination.Lease); ok && lease.Name == ledgerName {
			c.deletedLedger()
		}
	}
}

// contentOfA matches what a [Configuration] writes to /etc/a.
var contentOfA = regexp.MustCompile(`path: /etc/a\n +content: {inline: {data: (.*)}}`)

// wroteNode checks a write of a Node. mu must be held.
func (c *checker) wroteNode(before, after *core.Node) {
	if before != nil {
		c.numbers[c.nodes[before.Name].runs]--
	}
	if after == nil {
		c.deletedNode(before.Name)
		return
	}

	name := after.Name
	if c.cordons[name] && !after.Spec.Unschedulable {
		c.fault("%s is uncordoned, but an operator has cordoned it", name)
	}
	n := seenNode{
		runs:   after.Annotations[doneAnnotation],
		isAway: after.Spec.Unschedulable || !isReady(after),
	}
	_, n.isOther = after.Labels[otherLabel]
	if h, err := turns.ParseHolder(after.Annotations[markAnnotation]); err == nil {
		n.mark = h.ID
		n.target = h.Target
	}
	for _, key := range []string{"loam.dev/failed", "loam.dev/failed-system"} {
		if f, err := turns.ParseFailure(after.Annotations[key]); err == nil {
			n.failed = append(n.failed, f.Target)
			delete(c.unnoted[f.Target], name)
		}
	}
	for _, target := range c.nodes[name].failed {
		if !slices.Contains(n.failed, target) {
			c.unnote(target, name)
		}
	}
	if _, isBack := c.reborn[name]; isBack && before == nil {
		c.reborn[name] = time.Now().Add(rebirth)
	}
	c.nodes[name] = n
	c.numbers[n.runs]++
}

// deletedLedger forgets the ledger. The next one knows of a failure only what is on
// the Nodes. mu must be held.
func (c *checker) deletedLedger() {
	c.ledger = turns.Ledger{}
	c.written = false
	for target, nodes := range c.unnoted {
		if len(nodes) > 0 {
			delete(c.halted, target)
		}
	}
}

// unnote says that a Node does not remember the failure of a target, so a halt by it
// does not outlive the ledger, which may be deleted already. mu must be held.
func (c *checker) unnote(target, name string) {
	if c.unnoted[target] == nil {
		c.unnoted[target] = map[string]bool{}
	}
	c.unnoted[target][name] = true
	if !c.written || c.ledger.State == turns.Restoring {
		delete(c.halted, target)
	}
}

// deletedNode takes a Node out of all that is known. mu must be held.
func (c *checker) deletedNode(name string) {
	for _, target := range c.nodes[name].failed {
		c.unnote(target, name)
	}
	c.reborn[name] = time.Time{}
	delete(c.nodes, name)
	delete(c.cordons, name)
}

// started says that the agent of a node runs again, which ended at the time. It has to
// see first whether its Node is another one.
func (c *checker) started(name string, ended time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.reborn[name]; ended.Before(at) {
		c.reborn[name] = time.Now().Add(rebirth)
	}
}

func isReady(n *core.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c core.NodeCondition) bool {
		return c.Type == core.NodeReady && c.Status == core.ConditionTrue
	})
}

// wroteLedger checks a ledger against the policy and the one before. mu must be
// held.
func (c *checker) wroteLedger(l *coordination.Lease) {
	next, err := turns.ReadLedger(l.Annotations)
	if err != nil {
		c.fault("the ledger: %v", err)
		return
	}
	had := holdersOf(c.ledger)
	has := holdersOf(next)

	for machine, h := range next.Holders {
		if had[h.ID].ID == "" {
			c.took(machine, h, next)
		}
	}
	given := 0
	for id, h := range had {
		if has[id].ID == "" {
			given++
			c.gave(h, next)
		}
	}
	if n := countedSince(c.ledger, next); n > given && c.ledger.State != turns.Restoring && c.written {
		c.fault("%d turns are given and %d counted: %s, then %s",
			given, n, c.ledger.Summary(), next.Summary())
	}

	if next.Halted != "" {
		c.halted[next.Target] = true
	}
	for target, r := range next.Systems {
		if r.Halted != "" {
			c.halted[target] = true
		}
	}
	if next.State != turns.Restoring { // Until then, it lacks the turns of one that was deleted.
		maps.DeleteFunc(c.taken, func(id string, _ time.Time) bool { return has[id].ID == "" })
	}
	c.ledger = next
	c.written = true
}

// gave checks a node that gives its turn: it is well again, and its Node says so if its
// change has failed. mu must be held.
func (c *checker) gave(h turns.Holder, next turns.Ledger) {
	if c.disturbed[h.Node] > 0 && c.counts(h.Node) {
		c.fault("%s gives its turn while it is disturbed", h.Node)
	}

	hasFailed := failuresOf(next, h) > failuresOf(c.ledger, h)
	if !hasFailed || slices.Contains(c.nodes[h.Node].failed, h.Target) {
		return
	}
	if c.counts(h.Node) {
		c.fault("%s has failed, and its Node does not say so: %s", h.Node, next.Summary())
	}
	c.unnote(h.Target, h.Node)
}

// failuresOf returns how many failures a ledger counts of what a holder changes to.
func failuresOf(l turns.Ledger, h turns.Holder) int {
	switch {
	case h.Version != "":
		return l.Systems[h.Target].Failed
	case h.Target == l.Target:
		return l.Failed
	}
	return 0
}

// holdersOf returns the holders of all turns, by the ID of the turn.
func holdersOf(l turns.Ledger) map[string]turns.Holder {
	all := make(map[string]turns.Holder, len(l.Holders)+len(l.Restored))
	for _, of := range []map[string]turns.Holder{l.Holders, l.Restored} {
		for _, h := range of {
			all[h.ID] = h
		}
	}
	return all
}

// countedSince returns how many turns next counts that before does not.
func countedSince(before, next turns.Ledger) int {
	all := func(r turns.Rollout) int { return r.Done + r.Failed + r.Postponed }
	n := all(next.Rollout)
	if before.Target == next.Target {
		n -= all(before.Rollout)
	}
	for target, r := range next.Systems {
		n += all(r) - all(before.Systems[target])
	}
	return n
}

// took checks that a machine takes a turn. mu must be held.
func (c *checker) took(machine string, h turns.Holder, next turns.Ledger) {
	switch {
	case c.ledger.State != turns.Running:
		c.fault("%s takes a turn, and the ledger is %q", machine, c.ledger.State)
	case haltedFor(c.ledger, h), c.halted[h.Target]:
		c.fault("%s takes a turn after the halt: %s", machine, c.ledger.Summary())
	}
	if s := c.shared[h.Node]; s.id != h.ID && !s.isKept() {
		delete(c.shared, h.Node)
	}
	if _, isThere := c.nodes[h.Node]; isThere {
		delete(c.reborn, h.Node)
	}
	c.taken[h.ID] = time.Now()

	list := c.list
	if list == nil {
		list = c.nodes
	}
	away := map[string]bool{h.Node: true}
	for _, other := range next.Holders {
		if _, there := list[other.Node]; there {
			away[other.Node] = true
		}
	}
	for _, other := range next.Restored {
		if list[other.Node].mark == other.ID {
			away[other.Node] = true
		}
	}
	for name, n := range list {
		if n.isAway && !n.isOther {
			away[name] = true
		}
	}
	limits := c.limits
	if time.Now().Before(c.learned) {
		limits = limits.or(c.before)
	}
	c.count("have a turn or are away", away, c.places[h.Node], limits)
}

// haltedFor reports whether a ledger is halted for the target of a holder.
func haltedFor(l turns.Ledger, h turns.Holder) bool {
	if h.Version != "" {
		return l.Systems[h.Target].Halted != ""
	}
	return l.Target == h.Target && l.Halted != ""
}

// count checks limits for a set of nodes: in all, and of the zone and the rack at
// a place. mu must be held.
func (c *checker) count(what string, set map[string]bool, at place, limits Limits) {
	zone := 0
	rack := 0
	for name := range set {
		other := c.places[name]
		if other.zone == at.zone {
			zone++
		}
		if other.rack == at.rack {
			rack++
		}
	}

	for _, of := range []struct {
		where       string
		number, max int
	}{
		{"all", len(set), limits.Total},
		{at.zone, zone, limits.Zone},
		{at.rack, rack, limits.Rack},
	} {
		if of.max > 0 && of.number > of.max {
			c.fault("%d nodes of %s %s, allowed are %d: %v",
				of.number, of.where, what, of.max, slices.Sorted(maps.Keys(set)))
		}
	}
}

// counts reports whether a node is counted. mu must be held.
func (c *checker) counts(name string) bool {
	_, isThere := c.nodes[name]
	return isThere && c.shared[name].id == "" && !time.Now().Before(c.reborn[name])
}

// begin says that the pods of a node are disturbed from now on, for a change to target:
// the digest of a configuration or [turns.SystemTarget].
func (c *checker) begin(name, target string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disturbed[name]++
	c.touched[name]++

	away := map[string]bool{}
	for other := range c.disturbed {
		if c.counts(other) {
			away[other] = true
		}
	}
	c.most = max(c.most, len(away))
	if !c.counts(name) {
		return
	}

	limits := c.limits
	for _, at := range c.taken {
		if at.Before(c.learned) {
			limits = limits.or(c.before)
		}
	}
	c.count("are disturbed", away, c.places[name], limits)

	n := c.nodes[name]
	switch {
	case n.mark == "":
		c.fault("%s is disturbed without a mark", name)
	case c.written && c.ledger.State != turns.Restoring && holdersOf(c.ledger)[n.mark].ID == "":
		c.fault("%s is disturbed without a turn: %s", name, c.ledger.Summary())
	case target != n.target && target != n.runs:
		c.fault("%s is disturbed for %.12s, and its turn is for %.12s", name, target, n.target)
	}
}

// digest returns the digest of the configuration that writes text to /etc/a.
func (c *checker) digest(text string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.digests[text]
}

// end says that a node is well again.
func (c *checker) end(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disturbed[name]--
	if c.disturbed[name] == 0 {
		delete(c.disturbed, name)
	}
}

// configured reports whether there is a configuration.
func (c *checker) configured() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.digests) > 0
}

// running returns how many Nodes say that they run the configuration with that
// digest.
func (c *checker) running(digest string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.numbers[digest]
}

// away returns how many nodes are disturbed now.
func (c *checker) away() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.disturbed)
}

// allow makes limits those of the policy. Nodes may not have seen that until then.
func (c *checker) allow(limits Limits, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = c.before.or(c.limits)
	c.limits = limits
	c.learned = until
}

// operator calls edit for what an operator does.
func (c *checker) operator(edit func(c *checker)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	edit(c)
}

// listed returns the Nodes.
func (c *checker) listed() map[string]seenNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.nodes)
}

// lookedFor returns a list in which one of the Nodes was looked for by name.
func (c *checker) lookedFor(name string, list map[string]seenNode) map[string]seenNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	list = maps.Clone(list)
	if n, isThere := c.nodes[name]; isThere {
		list[name] = n
	} else {
		delete(list, name)
	}
	return list
}

// doing says what a node is doing about its turn.
func (c *checker) doing(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	mark := c.nodes[name].mark
	hasTurn := slices.ContainsFunc(slices.Collect(maps.Values(holdersOf(c.ledger))),
		func(h turns.Holder) bool { return h.Node == name })
	switch {
	case c.disturbed[name] > 0:
		return "disturbed"
	case hasTurn && mark != "":
		return "marked"
	case hasTurn:
		return "in the ledger, not marked"
	case mark != "":
		return "marked, not in the ledger"
	}
	return "without a turn"
}

// writes says what the node that writes next has listed before.
func (c *checker) writes(list map[string]seenNode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = list
}

// state is what the checker has seen.
type state struct {
	// ledger is the last one, marked the Nodes with a mark.
	ledger turns.Ledger
	marked []string

	// touched is how many nodes were disturbed, most how many at once.
	touched, most int

	faults []string
}

func (c *checker) state() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := state{
		ledger:  c.ledger,
		touched: len(c.touched),
		most:    c.most,
		faults:  slices.Clone(c.faults),
	}
	for name, n := range c.nodes {
		if n.mark != "" {
			s.marked = append(s.marked, name)
		}
	}
	slices.Sort(s.marked)
	return s
}

// forget forgets which nodes were disturbed so far.
func (c *checker) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touched = map[string]int{}
	c.most = 0
}
