package rollout

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/turns"
)

// most is the size of the largest fleet.
const most = 4

// stage is how far a machine is with its change.
type stage uint8

const (
	waiting  stage = iota
	refused        // postponed, which is not on the disk yet
	unwanted       // given up, until it is wanted again
	changing
	proven
	failed
	done // which is on the disk
	lost // done, after a failure
)

// machine is one machine: its agent and its disk.
type machine struct {
	up    bool
	turn  turns.Turn
	stage stage

	// node is the Node as the agent last saw it.
	node node

	// seen is what was read, and old says that the ledger was written since. kept is
	// what was seen, with a list of the Nodes, before a write that conflicted.
	seen *turns.Seen
	old  bool
	kept *turns.Seen

	// clock is by how many hours its clock is ahead.
	clock int8

	// rebooted says that the machine has restarted for its change.
	rebooted bool

	// taken counts the turns that were begun.
	taken int8

	// gave says that it has given a turn, and off that it never starts again. forgot
	// says that its Node was deleted with what it remembered of a failure.
	gave, off, forgot bool
}

// node is a Node of the API server.
type node struct {
	there bool
	uid   int8
	mark  string

	// failure is what it remembers of a change that failed, tried what it has tried
	// as a canary.
	failure, tried string
}

// world is a state of the walk.
type world struct {
	machines [most]machine
	nodes    [most]node

	// ledger is nil if it does not exist.
	ledger *turns.Ledger

	// failures are how many changes have failed: of the configuration, and of the
	// system.
	failures [2]int8

	// hours are how many have passed. shut says that no window is open.
	hours int8
	shut  bool

	// left are the faults that may still happen.
	left faults
}

// faults are how often each fault may happen. again is another change for a machine
// whose change is proven; hour is an hour that passes, shut a window that closes;
// pause and hurry are what a person writes to the ledger.
type faults struct {
	kill, delete, rebirth, loss, clock, postpone, giveUp, off, again int8

	hour, shut, pause, hurry int8
}

// never matches the faults that do not happen.
var never = regexp.MustCompile(`\w+:0\s*`)

// String names the faults that happen, such as "kill:2 loss:1".
func (f faults) String() string {
	type plain faults
	text := never.ReplaceAllString(fmt.Sprintf("%+v", plain(f)), "")
	return cmp.Or(strings.TrimSpace(strings.Trim(text, "{}")), "none")
}

// scenario is a fleet and what may happen to it.
type scenario struct {
	name   string
	size   int
	policy turns.Policy
	left   faults

	// zones and racks are those of the machines.
	zones, racks [most]string

	// bad are the machines whose change fails. upgrades are those that change to
	// another system, by a restart; the others change their configuration.
	bad, upgrades [most]bool

	// canaries are the machines that go first, pinned those that an operator keeps
	// from changing.
	canaries, pinned [most]bool

	// controlPlanes are the machines of which one may be away, whatever the policy
	// says.
	controlPlanes [most]bool

	// drains says that nodes are drained before they change.
	drains bool

	// clone says that the last machine has the name and the Node of the first.
	clone bool

	// next is how machines decide, [turns.Next] unless a bug is seeded. later is
	// [turns.Seen.Later] likewise.
	next  func(turns.View) turns.Step
	later func(turns.Seen, *turns.Ledger) turns.Seen

	// keeps, blind, forgetful and amnesic seed bugs of the caller: what was read
	// is kept after a mark, a write does not compare, a turn is not saved, a
	// turn ends with a restart.
	keeps, blind, forgetful, amnesic bool
}

// start is when each walk begins, and untilShut until when no window is open then.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const untilShut = 12 * time.Hour

func (s scenario) begin() world {
	w := world{left: s.left}
	for i := range s.size {
		w.nodes[i].there = !s.clone || i < s.size-1
		w.machines[i].up = true
		w.machines[i].node.there = true
	}
	return w
}

// of returns the index of the Node of a machine.
func (s scenario) of(i int) int {
	if s.clone && i == s.size-1 {
		return 0
	}
	return i
}

func name(i int) string { return "n" + strconv.Itoa(i) }

// now is the time of m.
func (w world) now(m machine) time.Time {
	now := start.Add(time.Duration(w.hours+m.clock) * time.Hour)
	if w.shut {
		now = now.Add(untilShut)
	}
	return now
}

// view is what machine i knows.
func (s scenario) view(w world, i int) turns.View {
	m := w.machines[i]
	n := s.of(i)

	v := turns.View{
		Policy: s.policy,
		Me: turns.Me{
			Pool:      "pool",
			Machine:   name(n),
			Node:      name(n),
			UID:       strconv.Itoa(int(m.node.uid)),
			Zone:      s.zones[n],
			Rack:      s.racks[n],
			Target:    "new",
			Revision:  7,
			Class:     turns.Kubelet,
			Unchanged: time.Hour,
			Listed:    time.Hour,
			Canary:    s.canaries[n],

			ControlPlane: s.controlPlanes[n],
		},
		Turn:    m.turn,
		Tried:   turns.ParseTried(m.node.tried),
		Mark:    m.node.mark,
		Failure: m.node.failure,
		Seen:    m.seen,
		ID:      strconv.Itoa(i) + "." + strconv.Itoa(int(m.taken)+1),
		Now:     w.now(m),
		Why:     "it fails",
	}
	if s.upgrades[n] {
		v.Me.Target = "system"
		v.Me.Version = "2.0.0"
		v.Me.Class = turns.Reboot
	}
	if s.pinned[n] {
		v.Me.Pinned = "for a reason"
	}
	if !m.node.there {
		v.Me.Node = ""
	}
	v.Turn.Postponed.Until = time.Time{} // Pauses end at any time.
	v.Turn.PostponedSystem.Until = time.Time{}
	switch m.stage {
	case waiting, changing:
		v.Need = turns.NeedTurn
		v.Checks = s.drains && m.stage == waiting
	case refused:
		v.Need = turns.NeedPostpone
	case unwanted:
		if m.turn.Phase == turns.Holding {
			v.Need = turns.NeedReturn
		}
	case proven:
		v.Need = turns.NeedGive
	case failed:
		v.Need = turns.NeedFail
	}
	return v
}

// fleet lists the Nodes.
func (s scenario) fleet(w world) turns.Fleet {
	var f turns.Fleet
	for i := range s.size {
		if n := w.nodes[i]; n.there {
			f = append(f, turns.Node{
				Name:     name(i),
				Zone:     s.zones[i],
				Rack:     s.racks[i],
				Mark:     n.mark,
				Failures: []string{n.failure},
				Away:     w.machines[i].off,
				Canary:   s.canaries[i],
				Pinned:   s.pinned[i],
				Tried:    turns.ParseTried(n.tried),

				ControlPlane: s.controlPlanes[i],
			})
		}
	}
	return f
}

// put makes l the ledger. What others have read is old then.
func (w *world) put(l *turns.Ledger) {
	w.ledger = l
	for i := range w.machines {
		w.machines[i].old = true
	}
}

// edge is a transition.
type edge struct {
	label string
	to    world

	// fault says that the transition is not needed to make progress.
	fault bool
}

// edges returns all transitions of w.
func (s scenario) edges(w world) []edge {
	var out []edge
	for i := range s.size {
		if w.machines[i].up {
			out = append(out, s.steps(w, i)...)
		}
		out = append(out, s.accidents(w, i)...)
	}

	return append(out, w.events()...)
}

// private returns a step of one machine that commutes with all else that may happen:
// no other machine notices it, and it comes out the same, and with the same view after
// it, whatever happens first. It need not be walked in every order. It returns false if
// there is none.
//
// Such steps are a write to the disk, and those by which a machine forgets what it has
// read: it waits, its write conflicts, or the ledger that it is to create is there. Its
// death before it forgets is its death after. A list of the Nodes for a write that will
// conflict is one if it is the same at any time, or not kept.
func (s scenario) private(w world) (edge, bool) {
	left := w.left
	changesViews := left.rebirth+left.clock+left.hour+left.shut+left.again > 0 || w.shut
	if changesViews || s.clone {
		return edge{}, false
	}

	for i := range s.size {
		m := w.machines[i]
		isUpToDate := m.node == w.nodes[i] && m.stage != unwanted
		if !m.up || !isUpToDate {
			continue
		}

		isPrivate := false
		switch s.next(s.view(w, i)).Kind {
		case turns.Save:
			isPrivate = left.kill+left.off == 0
		case turns.Await:
			isPrivate = m.seen != nil
		case turns.Write:
			isPrivate = m.old && !s.blind
		case turns.Create:
			isPrivate = w.ledger != nil && left.delete == 0
		case turns.List:
			l := m.seen.Ledger
			isForgotten := l != nil && l.State == turns.Restoring
			isSame := l != nil && m.turn.Phase == turns.Taking && s.isConstant(w)
			isPrivate = (isForgotten || isSame) && m.old && !s.blind
		}
		if isPrivate {
			return s.steps(w, i)[0], true
		}
	}
	return edge{}, false
}

// isConstant reports whether what is kept of a list of the Nodes will always be the same.
func (s scenario) isConstant(w world) bool {
	for i := range s.size {
		if !w.nodes[i].there || s.canaries[i] {
			return false
		}
	}
	return w.left.rebirth == 0
}

// events are what happens to all machines, and what people do.
func (w world) events() []edge {
	var out []edge
	add := func(label string, fault bool, edit func(to *world)) {
		to := w
		edit(&to)
		out = append(out, edge{label, to, fault})
	}
	write := func(label string, fault bool, edit func(to *world, l *turns.Ledger)) {
		add(label, fault, func(to *world) {
			l := *w.ledger
			edit(to, &l)
			to.put(&l)
		})
	}

	if w.left.hour > 0 {
		add("an hour passes", true, func(to *world) {
			to.left.hour--
			to.hours++
		})
	}
	switch {
	case w.shut:
		add("the window opens", false, func(to *world) { to.shut = false })
	case w.left.shut > 0:
		add("the window closes", true, func(to *world) {
			to.left.shut--
			to.shut = true
		})
	}
	if w.ledger == nil {
		return out
	}

	if w.left.delete > 0 {
		add("ledger deleted", true, func(to *world) {
			to.left.delete--
			to.put(nil)
		})
	}
	switch state := w.ledger.State; {
	case state == turns.Paused:
		write("a person resumes", false, func(_ *world, l *turns.Ledger) { l.State = turns.Running })
	case state == turns.Running && w.left.pause > 0:
		write("a person pauses", true, func(to *world, l *turns.Ledger) {
			to.left.pause--
			l.State = turns.Paused
		})
	}
	if w.left.hurry > 0 {
		write("a person is in a hurry", true, func(to *world, l *turns.Ledger) {
			to.left.hurry--
			l.Hurry = &turns.Hurry{
				Max:   turns.Amount{Percent: 100},
				Until: start.Add(time.Duration(w.hours)*time.Hour + 30*time.Minute),
			}
		})
	}
	return out
}

// accidents are what happens to machine i and its Node from outside.
func (s scenario) accidents(w world, i int) []edge {
	var out []edge
	add := func(label string, fault bool, edit func(to *world)) {
		to := w
		edit(&to)
		out = append(out, edge{fmt.Sprintf("%d %s", i, label), to, fault})
	}

	m := w.machines[i]
	n := s.of(i)
	if w.left.off > 0 && s.canaries[n] && m.turn.Phase == turns.Over && m.stage == waiting {
		add("is off for good", true, func(to *world) {
			to.left.off--
			to.machines[i].up = false
			to.machines[i].off = true
			to.machines[i].seen = nil
			to.machines[i].kept = nil
		})
	}
	switch {
	case m.off:
	case !m.up:
		add("starts", false, func(to *world) {
			to.machines[i].up = true
			to.machines[i].node = w.nodes[n]
		})
	case w.left.kill > 0:
		add("dies", true, func(to *world) {
			to.left.kill--
			to.machines[i].up = false
			to.machines[i].seen = nil
			to.machines[i].kept = nil
			if m.stage == refused || m.stage == unwanted {
				to.machines[i].stage = waiting
			}
			if s.forgetful && m.turn.Phase == turns.Taking {
				to.machines[i].turn = turns.Turn{}
			}
		})
	}

	if w.left.again > 0 && (m.stage == proven || m.stage == done) && !s.upgrades[n] {
		add("is to change again", true, func(to *world) {
			to.left.again--
			to.machines[i].stage = waiting
		})
	}
	if m.stage == unwanted {
		add("wants its change again", false, func(to *world) { to.machines[i].stage = waiting })
	}
	if w.left.clock > 0 && m.clock == 0 && m.up {
		for _, hours := range []int8{1, -1} {
			add(fmt.Sprintf("is %+d h ahead", hours), true, func(to *world) {
				to.left.clock--
				to.machines[i].clock = hours
			})
		}
	}
	if m.up && m.node != w.nodes[n] {
		add("sees its Node", false, func(to *world) { to.machines[i].node = w.nodes[n] })
	}
	if n != i {
		return out
	}

	switch {
	case !w.nodes[i].there:
		add("is born again", false, func(to *world) {
			to.nodes[i].there = true
			to.nodes[i].uid++
		})
	case w.left.rebirth > 0:
		add("Node deleted", true, func(to *world) {
			to.left.rebirth--
			to.machines[i].forgot = m.forgot || w.nodes[i].failure != ""
			to.nodes[i].there = false
			to.nodes[i].mark = ""
			to.nodes[i].failure = ""
		})
	}
	return out
}

// steps are what machine i may do next.
func (s scenario) steps(w world, i int) []edge {
	step := s.next(s.view(w, i))
	label := fmt.Sprintf("%d %s", i, step.Kind)
	to := w
	m := &to.machines[i]
	n := &to.nodes[s.of(i)]
	var lossy []edge

	switch step.Kind {
	case turns.Nothing:
		return nil
	case turns.Await:
		m.seen = nil
	case turns.Read:
		seen := turns.Seen{Ledger: w.ledger}
		if m.kept != nil {
			seen = s.later(*m.kept, w.ledger)
		}
		m.seen = &seen
		m.old = false
		m.kept = nil
	case turns.List:
		m.seen = &turns.Seen{Ledger: m.seen.Ledger, Fleet: s.fleet(w), Listed: true}
	case turns.Create:
		if w.ledger == nil {
			l := turns.New()
			if step.Ledger.State != "" {
				l = step.Ledger
			}
			to.put(&l)
		}
		m.seen = nil
	case turns.Write:
		return s.write(w, i, step)
	case turns.Save:
		if m.turn.Phase == turns.Over && step.Turn.Phase == turns.Taking {
			m.taken++
		}
		m.save(step.Turn)
		label += " " + string(step.Turn.Phase)
	case turns.Mark, turns.Unmark, turns.Note, turns.NoteTried:
		if !n.there || (step.Kind == turns.Unmark && m.node != *n) {
			return nil // It waits for the watch.
		}
		switch step.Kind {
		case turns.Mark:
			n.mark = step.Turn.Holder.String()
		case turns.Note:
			n.failure = step.Failure.String()
		case turns.NoteTried:
			n.tried = step.Tried.String()
		default:
			n.mark = ""
			if step.Clears {
				n.failure = ""
			}
		}
		if w.left.loss > 0 {
			lost := to
			lost.left.loss--
			lost.machines[i].seen = nil
			lossy = []edge{{label + " without an answer", lost, true}}
		}
		m.node = *n
		if !s.keeps {
			m.seen = nil
		}
	case turns.Proceed:
		return s.change(w, i)
	}
	return append(lossy, edge{label, to, false})
}

// write is a compare-and-swap. Its answer may be lost, and the machine may die
// before it saves its turn.
func (s scenario) write(w world, i int, step turns.Step) []edge {
	to := w
	m := &to.machines[i]
	label := fmt.Sprintf("%d write", i)
	if (m.old && !s.blind) || w.ledger == nil {
		m.kept = kept(*m.seen, name(s.of(i)))
		m.seen = nil
		return []edge{{label + " conflicts", to, false}}
	}

	if s.has(w.ledger, i, m.turn) && !s.has(&step.Ledger, i, m.turn) {
		isUsed := m.turn.Phase == turns.Returning && m.turn.Outcome.How != turns.NeedReturn
		m.gave = m.gave || isUsed
	}
	to.put(&step.Ledger)
	m.seen = nil
	out := []edge{}
	if w.left.loss > 0 {
		lost := to
		lost.left.loss--
		out = append(out, edge{label + " without an answer", lost, true})
	}
	if step.Save {
		m.save(step.Turn)
	}
	return append(out, edge{label + " " + step.Ledger.Summary(), to, false})
}

// kept returns what is kept of what a machine has seen that knows the Node own, nil
// for nothing: what counts later of it.
func kept(seen turns.Seen, own string) *turns.Seen {
	l := seen.Ledger
	if !seen.Listed || l.State == turns.Restoring || len(l.Restored) > 0 {
		return nil
	}

	var fleet turns.Fleet
	for _, n := range seen.Fleet {
		if n.Name != own {
			n.Mark = ""
		}
		n.Failures = nil
		fleet = append(fleet, n)
	}
	return &turns.Seen{
		Ledger: &turns.Ledger{Holders: l.Holders},
		Fleet:  fleet,
		Listed: true,
	}
}

// has reports whether the turn of machine i is in the ledger.
func (s scenario) has(l *turns.Ledger, i int, turn turns.Turn) bool {
	n := name(s.of(i))
	return l.Holders[n].ID == turn.Holder.ID || l.Restored[n].ID == turn.Holder.ID
}

// change is what a machine does with its turn.
func (s scenario) change(w world, i int) []edge {
	to := w
	m := &to.machines[i]
	switch {
	case m.stage == waiting:
		m.stage = changing
		out := []edge{{fmt.Sprintf("%d changes", i), to, false}}
		if w.left.postpone > 0 {
			later := w
			later.left.postpone--
			later.machines[i].stage = refused
			out = append(out, edge{fmt.Sprintf("%d cannot change", i), later, true})
		}
		if w.left.giveUp > 0 {
			later := w
			later.left.giveUp--
			later.machines[i].stage = unwanted
			out = append(out, edge{fmt.Sprintf("%d gives its change up", i), later, true})
		}
		return out
	case s.upgrades[s.of(i)] && !m.rebooted:
		m.rebooted = true
		m.up = false
		m.seen = nil
		m.kept = nil
		if s.amnesic {
			m.turn = turns.Turn{}
		}
		return []edge{{fmt.Sprintf("%d restarts", i), to, false}}
	case s.bad[s.of(i)]:
		m.stage = failed
		to.failures[s.kind(i)]++
		return []edge{{fmt.Sprintf("%d fails", i), to, false}}
	}
	m.stage = proven
	return []edge{{fmt.Sprintf("%d is proven", i), to, false}}
}

// kind returns the index of the failures that one of machine i counts to.
func (s scenario) kind(i int) int {
	if s.upgrades[s.of(i)] {
		return 1
	}
	return 0
}

// halted reports whether the rollout of machine i is halted.
func (s scenario) halted(w world, i int) bool {
	switch {
	case w.ledger == nil:
		return false
	case s.kind(i) == 1:
		return w.ledger.Systems["system"].Halted != ""
	}
	return w.ledger.Halted != ""
}

// stands reports whether machine i may not begin by that ledger.
func (s scenario) stands(l *turns.Ledger, i int) bool {
	return l.State == turns.Paused || s.halted(world{ledger: l}, i)
}

// save makes t the turn on the disk. With its outcome, the change ends.
func (m *machine) save(t turns.Turn) {
	if m.turn.Phase == turns.Holding {
		m.seen = nil
	}
	m.turn = t
	if t.Phase == turns.Holding {
		m.seen = nil // A drain takes long.
	}
	if t.Phase != turns.Returning {
		return
	}
	switch t.Outcome.How {
	case turns.NeedGive:
		m.stage = done
	case turns.NeedFail:
		m.stage = lost
	default:
		m.stage = waiting
	}
}

// isOver reports whether all machines have ended, or cannot begin because the
// rollout is halted.
func (s scenario) isOver(w world) bool {
	for i := range s.size {
		m := w.machines[i]
		n := w.nodes[s.of(i)]
		if m.off {
			continue
		}
		halted := m.stage == waiting && (s.halted(w, i) || s.pinned[i])
		if !m.up || !n.there || n.mark != "" || m.turn.Phase != turns.Over ||
			(m.stage < done && !halted) {
			return false
		}
	}
	return true
}

// problem returns what is wrong with w, "" for nothing.
func (s scenario) problem(w world) string {
	// With its Node, the mark of a turn may go before another node has restored it.
	isDeleted := w.left.rebirth < s.left.rebirth
	if w.ledger != nil && !isDeleted && s.isOver(w) {
		for i := range s.size {
			if _, is := w.ledger.Restored[name(i)]; is {
				return name(i) + " has given a turn that stays in the ledger"
			}
		}
	}
	all := 0
	controlPlanes := 0
	zones := map[string]int{}
	racks := map[string]int{}
	for i := range s.size {
		m := w.machines[i]
		n := w.nodes[s.of(i)]
		if m.stage == changing && n.there && strconv.Itoa(int(n.uid)) == m.turn.Holder.UID {
			all++
			if s.controlPlanes[s.of(i)] {
				controlPlanes++
			}
			zones[s.zones[s.of(i)]]++
			racks[s.racks[s.of(i)]]++
		}
		if m.stage == lost && m.turn.Phase == turns.Over && n.failure == "" && !m.forgot {
			return "a Node does not remember the failure of its machine"
		}
	}

	limit := s.policy.MaxUnavailable.Of(s.size)
	if w.left.hurry < s.left.hurry {
		limit = s.policy.HardMax.Of(s.size)
	}
	if all > limit {
		return fmt.Sprintf("%d machines are away, want %d", all, limit)
	}
	if controlPlanes > 1 {
		return fmt.Sprintf("%d control planes are away", controlPlanes)
	}
	for _, area := range []struct {
		what  string
		limit turns.Amount
		away  map[string]int
	}{
		{"zone", s.policy.PerZone, zones},
		{"rack", s.policy.PerRack, racks},
	} {
		for name, n := range area.away {
			if limit := area.limit.Of(s.size); limit > 0 && n > limit {
				return fmt.Sprintf("%d machines of %s %s are away, want %d", n, area.what, name, limit)
			}
		}
	}
	if w.ledger != nil {
		system := w.ledger.Systems["system"]
		given := w.ledger.Done + w.ledger.Failed + system.Done + system.Failed
		failed := int(w.failures[0] + w.failures[1])
		most := s.size + int(s.left.again-w.left.again)
		if given > most || w.ledger.Failed+system.Failed > failed {
			return "a turn was given twice"
		}
	}

	// The turn of a Node that is deleted does not count, and the Node takes along
	// what it remembers.
	allowed := 1 + s.left.rebirth - w.left.rebirth
	for _, n := range w.failures {
		if n > allowed {
			return fmt.Sprintf("%d machines have failed, want %d", n, allowed)
		}
	}
	return ""
}

// wrong returns what is wrong with a transition, "" for nothing.
func (s scenario) wrong(from, to world) string {
	if from.ledger == nil || to.ledger == nil {
		return ""
	}
	for i := range s.size {
		m := from.machines[i]
		begins := m.stage == waiting && to.machines[i].stage == changing
		if s.drains && begins && (m.seen == nil || s.stands(m.seen.Ledger, i)) {
			return "a machine that was drained changes although the rollout stands"
		}

		n := name(s.of(i))
		_, had := from.ledger.Holders[n]
		_, has := to.ledger.Holders[n]
		if had || !has {
			continue
		}
		now := from.now(from.machines[i])
		switch {
		case s.halted(from, i):
			return "a machine takes a turn although the rollout is halted"
		case from.ledger.State == turns.Paused:
			return "a machine takes a turn although the pool is paused"
		case from.shut && !hurries(from.ledger, now):
			return "a machine takes a turn although no window is open"
		case s.isLate(from, now):
			return "a machine takes a turn although another one has its turn for too long"
		}
		if first := s.canary(from); !s.canaries[i] && first != "" {
			return "a machine takes a turn before canary " + first + " has given its turn"
		}
	}
	return ""
}

// hurries reports whether a person is in a hurry.
func hurries(l *turns.Ledger, now time.Time) bool {
	return l.Hurry != nil && now.Before(l.Hurry.Until)
}

// isLate reports whether a machine has its turn for too long, by a clock that shows now.
func (s scenario) isLate(w world, now time.Time) bool {
	for i := range s.size {
		h, ok := w.ledger.Holders[name(i)]
		isThere := w.nodes[i].there && strconv.Itoa(int(w.nodes[i].uid)) == h.UID
		if ok && isThere && now.Sub(h.Since) > s.policy.Overdue[h.Class] {
			return true
		}
	}
	return false
}

// canary returns the name of a canary that can have its turn and has not given
// it, "" for none.
func (s scenario) canary(w world) string {
	for i := range s.size {
		m := w.machines[i]
		if s.canaries[i] && !s.pinned[i] && !m.off && !m.gave {
			return name(i)
		}
	}
	return ""
}

// hash returns the identity of a state.
func (w world) hash(seed maphash.Seed, size int) uint64 {
	b := make([]byte, 0, 512)
	f := w.left
	b = append(b, byte(f.kill), byte(f.delete), byte(f.rebirth), byte(f.loss), byte(f.clock),
		byte(f.off), byte(f.hour), byte(f.shut), byte(f.pause), byte(f.hurry), byte(w.hours),
		flag(w.shut))
	b = append(b, byte(f.postpone), byte(f.giveUp), byte(f.again), byte(w.failures[0]), byte(w.failures[1]))
	b = appendLedger(b, w.ledger)
	for i := range size {
		m := w.machines[i]
		b = append(b, flag(m.up), byte(m.clock), flag(m.seen != nil), flag(m.seen != nil && m.old))
		b = append(b, byte(m.stage), byte(m.node.uid), byte(m.taken), flag(m.node.there),
			since(m.turn.Holder), flag(m.rebooted), flag(m.gave), flag(m.off), flag(m.forgot))
		b = appendText(b, string(m.turn.Phase), string(m.turn.Outcome.How), m.turn.Holder.ID, m.turn.Holder.UID, m.node.mark,
			m.node.failure, m.node.tried)
		if m.seen != nil {
			b = appendLedger(b, m.seen.Ledger)
			b = append(b, flag(m.seen.Listed))
			b = appendFleet(b, m.seen.Fleet)
		}
		b = append(b, flag(m.kept != nil))
		if m.kept != nil {
			b = appendLedger(b, m.kept.Ledger)
			b = appendFleet(b, m.kept.Fleet)
		}
		n := w.nodes[i]
		b = append(b, flag(n.there), byte(n.uid))
		b = appendText(b, n.mark, n.failure, n.tried)
	}
	return maphash.Bytes(seed, b)
}

// since returns the hour in which a turn began.
func since(h turns.Holder) byte { return byte(h.Since.Sub(start) / time.Hour) }

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

func appendText(b []byte, texts ...string) []byte {
	for _, t := range texts {
		b = binary.AppendUvarint(b, uint64(len(t)))
		b = append(b, t...)
	}
	return b
}

func appendFleet(b []byte, fleet turns.Fleet) []byte {
	b = append(b, byte(len(fleet)))
	for _, n := range fleet {
		b = appendText(b, n.Name, n.Mark, strings.Join(n.Failures, ""), n.Tried.String())
		b = append(b, flag(n.Away), flag(n.Pinned))
	}
	return b
}

func appendLedger(b []byte, l *turns.Ledger) []byte {
	if l == nil {
		return append(b, 0)
	}
	system := l.Systems["system"]
	b = append(b, 1, byte(l.Done), byte(l.Failed), byte(l.Size), byte(len(l.Systems)),
		byte(system.Done), byte(system.Failed))
	b = appendText(b, string(l.State), l.Target, l.Halted, system.Halted)
	if l.Hurry != nil {
		b = append(b, byte(l.Hurry.Until.Sub(start)/time.Hour)+1)
	}
	for _, holders := range []map[string]turns.Holder{l.Holders, l.Restored} {
		names := make([]string, 0, most)
		for name := range holders {
			names = append(names, name)
		}
		slices.Sort(names)
		b = append(b, byte(len(names)))
		for _, name := range names {
			b = appendText(b, name, holders[name].ID)
			b = append(b, since(holders[name]), flag(holders[name].Counted))
		}
	}
	return b
}
