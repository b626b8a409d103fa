package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/turns"
)

const ledgerPath = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + ledgerName

// limits are the policies that a course draws from.
var limits = []Limits{
	{Total: 1},
	{Total: 2},
	{Total: 3, Zone: 1},
	{Total: 3, Zone: 2, Rack: 1},
	{Total: 4, Rack: 1},
	{Total: 5, Zone: 2},
}

// policyOf returns the policy that says limits.
func policyOf(l Limits, maxFailures int) string {
	p := map[string]any{
		"maxUnavailable": l.Total,
		"maxFailures":    maxFailures,
		"chunks":         []any{1, "50%", "100%"},
		"nodes":          "!" + otherLabel,
	}
	if l.Zone > 0 {
		p["perZone"] = l.Zone
	}
	if l.Rack > 0 {
		p["perRack"] = l.Rack
		p["rackLabel"] = rackLabel
	}
	text, _ := json.Marshal(p) // Strings and numbers only.
	return string(text)
}

// course is what happens to a fleet with one seed: rollouts, and accidents
// meanwhile.
type course struct {
	*Fleet
	random *rand.Rand

	// text is the configuration of the pool, failures how many failures the policy
	// allows, and failing the nodes on which configuration "two" fails.
	text     string
	failures int
	failing  map[string]bool

	// upgrades says that all nodes are to run the next system.
	upgrades bool

	// due is what happens, in the order of time.
	due []event

	// troubled is when the last trouble of a network is over.
	troubled time.Time

	clones []*member
	seen   sightings

	// trace is what has happened, for a test that fails.
	begun time.Time
	trace []string
}

// event is something that happens at a time. An undo ends an accident.
type event struct {
	at   time.Time
	undo bool
	do   func()
}

// sightings counts accidents, by their kind and what the node was doing.
type sightings map[string]int

// next is the system of upgrades.
var next = system{"2.0.0", "2b2b"}

// newCourse draws a fleet and starts it.
func newCourse(t testing.TB, seed uint64) *course {
	t.Helper()
	c := &course{
		random:  rand.New(rand.NewPCG(seed, 1<<32)),
		text:    "one",
		failing: map[string]bool{},
		seen:    sightings{},
	}
	l := limits[c.random.IntN(len(limits))]
	size := 10 + c.random.IntN(11)
	c.failures = c.random.IntN(3)
	canaries := max(0, c.random.IntN(5)-2)
	if c.random.IntN(3) == 0 {
		for range 1 + c.random.IntN(4) {
			c.failing[fmt.Sprint("node-", c.random.IntN(size))] = true
		}
	}

	c.Fleet = New(t, Options{
		Nodes:   size,
		Zones:   2 + c.random.IntN(2),
		Racks:   2,
		Policy:  policyOf(l, c.failures),
		Limits:  l,
		Restart: time.Duration(5+c.random.IntN(20)) * time.Second,
		Reboot:  time.Duration(20+c.random.IntN(60)) * time.Second,
		Fails:   func(node, text string) bool { return text == "two" && c.failing[node] },
		Canary: func(node string) bool {
			return slices.Contains([]string{"node-3", "node-4"}[:canaries], node)
		},
		Seed: seed,
	}, Configuration(c.text))
	c.begun = time.Now()
	t.Cleanup(func() {
		if t.Failed() {
			c.explain()
		}
	})
	return c
}

// plan draws when rollouts begin, and when accidents happen.
func (c *course) plan() {
	begin := time.Now()
	second := begin.Add(time.Minute + c.upTo(6*time.Minute))
	c.at(begin.Add(time.Second), false, func() { c.configure("two") })
	kind := c.random.IntN(3)
	if kind < 2 || len(c.failing) > 0 {
		c.at(second, false, func() { c.configure("three") })
	}
	if kind > 0 {
		c.at(second.Add(c.upTo(time.Minute)), false, func() {
			c.note("upgrades")
			c.upgrades = true
			for _, m := range c.members {
				m.arm(next)
			}
		})
	}

	end := second.Add(5 * time.Minute)
	for range 10 + c.random.IntN(30) {
		c.at(begin.Add(c.upTo(end.Sub(begin))), false, c.accident)
	}
}

func (c *course) upTo(d time.Duration) time.Duration { return time.Duration(c.random.Int64N(int64(d))) }

// at has something happen.
func (c *course) at(at time.Time, undo bool, do func()) {
	e := event{at: at, undo: undo, do: do}
	i, _ := slices.BinarySearchFunc(c.due, at, func(e event, at time.Time) int {
		return e.at.Compare(at)
	})
	c.due = slices.Insert(c.due, i, e)
}

// undo ends an accident after d.
func (c *course) undo(d time.Duration, do func()) { c.at(time.Now().Add(d), true, do) }

// run has everything happen that is due, until only what ends accidents is left.
func (c *course) run() {
	for slices.ContainsFunc(c.due, func(e event) bool { return !e.undo }) {
		timer := time.NewTimer(time.Until(c.due[0].at))
		select {
		case <-timer.C:
			e := c.due[0]
			c.due = c.due[1:]
			e.do()
		case do := <-c.happening:
			do()
		}
		timer.Stop()
		if s := c.checker.state(); len(s.faults) > 0 {
			c.Fatal(strings.Join(s.faults, "\n"))
		}
	}
}

// heal ends all accidents.
func (c *course) heal() {
	c.note("heals")
	for _, m := range c.everyone() {
		m.network.catch(nil)
	}
	for len(c.due) > 0 {
		e := c.due[0]
		c.due = c.due[1:]
		e.do()
	}
	for len(c.happening) > 0 {
		<-c.happening
	}
	for _, m := range c.everyone() {
		m.network.set(trouble{})
	}
	for _, m := range c.members {
		m.busy.lock()
		if m.life == nil {
			m.start()
		}
		m.register()
		m.busy.unlock()
	}
}

// note notes what happens.
func (c *course) note(format string, args ...any) {
	c.trace = append(c.trace, fmt.Sprintf("%9s  ", time.Since(c.begun).Round(time.Millisecond))+
		fmt.Sprintf(format, args...))
}

// explain logs what has happened, what is left of turns, and why nodes do not arrive.
func (c *course) explain() {
	s := c.checker.state()
	for _, h := range slices.Concat(slices.Collect(maps.Values(s.ledger.Holders)),
		slices.Collect(maps.Values(s.ledger.Restored))) {
		c.note("in the ledger: %s", h)
	}
	for _, m := range c.members {
		t := m.turn()
		if t.Phase != turns.Over || c.checker.listed()[m.name].mark != "" {
			c.note("%s: mark %q, turn %+v", m.name, c.checker.listed()[m.name].mark, t)
		}
		if c.checker.listed()[m.name].runs != sum(Configuration(c.text)) {
			c.note("%s does not say that it runs %s: %s", m.name, c.text, m.says())
		}
	}
	c.Logf("%d nodes, policy %s, failing %v:\n%s", len(c.members), c.Options.Policy, c.failing,
		strings.Join(c.trace, "\n"))
}

// everyone returns the machines, with clones.
func (c *course) everyone() []*member { return slices.Concat(c.members, c.clones) }

// configure gives the pool a configuration.
func (c *course) configure(text string) {
	c.note("configuration %s", text)
	c.text = text
	c.Configure(Configuration(text))
}

// arrives is nil once all nodes run what they are to run, and nothing is left of
// their turns.
func (c *course) arrives() error {
	if err := errors.Join(c.runs(Configuration(c.text)), c.settled()); err != nil {
		return err
	}
	for _, m := range c.members {
		if c.upgrades && !m.runsSystem(next.hash) {
			return fmt.Errorf("%s does not run the next system", m.name)
		}
		if text := m.text(); text != c.text {
			return fmt.Errorf("%s has configuration %q, not %q", m.name, text, c.text)
		}
	}

	var list core.NodeList
	if err := json.Unmarshal(c.Do(http.MethodGet, nodesPath, ""), &list); err != nil {
		c.Fatal(err)
	}
	for _, n := range list.Items {
		if n.Spec.Unschedulable || n.Annotations["loam.dev/drain"] != "" {
			return fmt.Errorf("%s is cordoned, or being drained", n.Name)
		}
	}
	return nil
}

// accident has one accident happen, now or with one of the next requests of its
// node. Most are on nodes that have a turn.
func (c *course) accident() {
	m := c.members[c.random.IntN(len(c.members))]
	s := c.checker.state()
	holders := slices.Sorted(maps.Keys(s.ledger.Holders))
	pick := c.random.IntN(1 << 20)
	if len(holders) > 0 && c.random.IntN(4) > 0 {
		name := holders[pick%len(holders)]
		m = c.members[slices.IndexFunc(c.members, func(m *member) bool { return m.name == name })]
	}

	kind := accidents[c.random.IntN(len(accidents))]
	happens := func() {
		synctest.Wait() // Then no agent writes to its disk.
		doing := c.checker.doing(m.name)
		c.seen[kind.name+" / "+doing]++
		c.note("%s: %s, %s", m.name, kind.name, doing)
		kind.happens(c, m)
	}
	if c.random.IntN(2) == 0 {
		happens()
		return
	}
	m.network.catch(&trap{
		matches: turnWrites[c.random.IntN(len(turnWrites))],
		after:   c.random.IntN(2) == 0,
		do:      happens,
	})
}

// turnWrites match requests that change a turn: in the ledger, or on the Node.
var turnWrites = []func(*http.Request) bool{
	func(r *http.Request) bool { return kindOf(r) == Takes },
	func(r *http.Request) bool { return kindOf(r) == Patches },
	func(r *http.Request) bool { return kindOf(r) == Takes || kindOf(r) == Patches },
}

// accidents are all kinds of them. Names that are there twice are more likely.
var accidents = []struct {
	name    string
	happens func(c *course, m *member)
}{
	{"partition", (*course).partition},
	{"partition", (*course).partition},
	{"lost answers", (*course).loseAnswers},
	{"slow", (*course).slowDown},
	{"busy server", (*course).overload},
	{"kill", (*course).kill},
	{"kill", (*course).kill},
	{"kill", (*course).kill},
	{"clock step", (*course).stepClock},
	{"ledger deleted", (*course).deleteLedger},
	{"ledger deleted", (*course).deleteLedger},
	{"Node deleted", (*course).deleteNode},
	{"clone", (*course).clone},
	{"policy", (*course).changePolicy},
	{"pause", (*course).pause},
	{"cordon", (*course).cordon},
	{"of another pool", (*course).moveAway},
	{"not Ready", (*course).notReady},
}

// trouble makes t the trouble of a machine for a time.
func (c *course) trouble(m *member, t trouble, most time.Duration) {
	d := time.Second + c.upTo(most)
	m.network.set(t)
	if end := time.Now().Add(d); end.After(c.troubled) {
		c.troubled = end
	}
	c.undo(d, func() { m.network.set(trouble{}) })
}

func (c *course) partition(m *member) {
	c.trouble(m, trouble{cut: true, silent: c.random.IntN(2) == 0}, 4*time.Minute)
}

func (c *course) loseAnswers(m *member) { c.trouble(m, trouble{lost: 0.5}, time.Minute) }

func (c *course) slowDown(m *member) { c.trouble(m, trouble{slow: 12 * time.Second}, time.Minute) }

func (c *course) overload(*member) {
	for _, m := range c.members {
		c.trouble(m, trouble{busy: 0.4}, time.Minute)
	}
}

func (c *course) stepClock(m *member) {
	m.clock.set(c.upTo(2*time.Hour) - time.Hour)
}

func (c *course) deleteLedger(*member) { c.asks(http.MethodDelete, ledgerPath, "") }

// kill kills the agent, unless its machine is off.
func (c *course) kill(m *member) {
	if !m.busy.tryLock() {
		return
	}
	defer m.busy.unlock()
	if m.life == nil {
		return
	}
	m.kill()

	down := c.upTo(time.Minute)
	if c.random.IntN(8) == 0 {
		down = c.upTo(15 * time.Minute) // Its turn is overdue.
	}
	c.undo(down, func() {
		m.busy.lock()
		defer m.busy.unlock()
		if m.life == nil {
			m.start()
		}
	})
}

// deleteNode deletes the Node. The kubelet registers it when it starts: the agent
// sees to that, or an operator.
func (c *course) deleteNode(m *member) {
	c.asks(http.MethodDelete, nodesPath+"/"+m.name, "")
	c.undo(c.upTo(time.Minute), func() {
		m.busy.lock()
		defer m.busy.unlock()
		m.register()
	})
}

// clone starts another machine with a copy of the disk.
func (c *course) clone(m *member) {
	if !m.busy.tryLock() {
		return
	}
	defer m.busy.unlock()
	turn := m.turn()
	shares := turn.Phase != turns.Over
	if shares && c.random.IntN(4) > 0 {
		return
	}

	number := len(c.members) + len(c.clones)
	clone := newMember(c.Fleet, m.name, m.copy(), number, m.config)
	clone.systemd.Restore(m.systemd.Memory())
	clone.runs = m.runs
	if shares {
		c.checker.operator(func(k *checker) {
			s := k.shared[m.name]
			if s.id != turn.Holder.ID {
				s = sharedTurn{id: turn.Holder.ID, machines: []*member{m}}
			}
			s.machines = append(s.machines, clone)
			k.shared[m.name] = s
		})
	}
	clone.start()
	c.clones = append(c.clones, clone)

	c.undo(10*time.Second+c.upTo(6*time.Minute), func() {
		clone.busy.lock()
		defer clone.busy.unlock()
		clone.off()
		clone.stop()
		c.checker.operator(func(k *checker) {
			s := k.shared[m.name]
			s.machines = slices.DeleteFunc(s.machines, func(other *member) bool { return other == clone })
			k.shared[m.name] = s
		})
		id := clone.turn().Holder.ID
		c.undo(c.upTo(time.Minute), func() { c.forgetTurn(m, id) })
	})
}

// forgetTurn is what an operator does about the turn of a machine that is gone for
// good, as loamctl rollout forget does. id is that turn.
func (c *course) forgetTurn(m *member, id string) {
	if id == "" || m.turn().Holder.ID == id {
		return
	}
	c.editLedger(func(l turns.Ledger) turns.Ledger {
		if l.Holders[m.name].ID != id && l.Restored[m.name].ID != id {
			return l
		}
		return l.Forget(m.name)
	})
	if c.checker.listed()[m.name].mark == id {
		c.asks(http.MethodPatch, nodesPath+"/"+m.name,
			fmt.Sprintf(`{"metadata": {"annotations": {%q: null}}}`, markAnnotation))
	}
}

// editLedger writes the ledger as an operator does. It changes nothing if there is
// none, or it is being restored.
func (c *course) editLedger(edit func(turns.Ledger) turns.Ledger) {
	c.serving.Lock()
	defer c.serving.Unlock()
	code, text := c.sendAlone(http.MethodGet, ledgerPath, "")
	if code != http.StatusOK {
		return
	}
	var lease coordination.Lease
	if err := json.Unmarshal(text, &lease); err != nil {
		c.Fatal(err)
	}
	l, err := turns.ReadLedger(lease.Annotations)
	if err != nil || l.State == turns.Restoring {
		return
	}
	lease.Annotations = edit(l).Annotations(lease.Annotations)
	text, err = json.Marshal(lease)
	if err != nil {
		c.Fatal(err)
	}
	if code, text := c.sendAlone(http.MethodPut, ledgerPath, string(text)); code != http.StatusOK {
		c.Fatalf("edit the ledger: %d %s", code, text)
	}
}

// pause pauses the rollout, and resumes it later.
func (c *course) pause(*member) {
	c.editLedger(func(l turns.Ledger) turns.Ledger { return l.Pause("lunch") })
	c.undo(c.upTo(3*time.Minute), func() {
		c.editLedger(func(l turns.Ledger) turns.Ledger {
			if l.State != turns.Paused {
				return l
			}
			c.checker.operator(func(k *checker) { clear(k.halted) })
			return l.Resume().Resume() // Of the pause, and of what was halted.
		})
	})
}

// changePolicy gives the pool another policy. A node that does not see that at once
// goes by the one before.
func (c *course) changePolicy(*member) {
	l := limits[c.random.IntN(len(limits))]
	seen := time.Now()
	if c.troubled.After(seen) {
		seen = c.troubled
	}
	c.checker.allow(l, seen.Add(time.Minute))
	c.Options.Policy = policyOf(l, c.failures)
	c.Configure(Configuration(c.text))
}

// cordon cordons the Node, unless it is, and uncordons it later.
func (c *course) cordon(m *member) {
	c.serving.Lock()
	defer c.serving.Unlock()
	path := nodesPath + "/" + m.name
	code, text := c.sendAlone(http.MethodGet, path, "")
	var n core.Node
	if code != http.StatusOK || json.Unmarshal(text, &n) != nil || n.Spec.Unschedulable {
		return
	}
	c.sendAlone(http.MethodPatch, path, `{"spec": {"unschedulable": true}}`)
	c.checker.operator(func(k *checker) { k.cordons[m.name] = true })

	c.undo(c.upTo(3*time.Minute), func() {
		c.checker.operator(func(k *checker) { delete(k.cordons, m.name) })
		c.asks(http.MethodPatch, path, `{"spec": {"unschedulable": false}}`)
	})
}

// notReady has the kubelet not be well for a time.
func (c *course) notReady(m *member) {
	m.ready(false)
	c.undo(c.upTo(2*time.Minute), func() {
		m.busy.lock()
		defer m.busy.unlock()
		m.ready(true)
	})
}

// moveAway labels the Node as one of another pool, and takes that back later.
func (c *course) moveAway(m *member) {
	path := nodesPath + "/" + m.name
	c.asks(http.MethodPatch, path, `{"metadata": {"labels": {"`+otherLabel+`": "yes"}}}`)
	c.undo(c.upTo(5*time.Minute), func() {
		c.asks(http.MethodPatch, path, `{"metadata": {"labels": {"`+otherLabel+`": null}}}`)
	})
}
