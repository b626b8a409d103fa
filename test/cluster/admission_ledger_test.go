package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/turns"
)

// ledgerNode is node-1 as it takes turns for a configuration or a system.
func ledgerNode(target, version string, revision uint64) turns.Me {
	return turns.Me{
		Pool:     "pool",
		Machine:  "node-1",
		Node:     "node-1",
		Target:   target,
		Version:  version,
		Revision: revision,
	}
}

// turnOf is a turn of a node.
func turnOf(node string) turns.Holder {
	return turns.Holder{
		ID:      node,
		Machine: node,
		Node:    node,
		Class:   turns.Kubelet,
		Since:   time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

// TestANodeWritesItsTurnOnly has the API server judge writes of a ledger, with its
// own name and with that of the Secret, as in Gardener. Before each of them, people
// write the ledger that it begins with.
func TestANodeWritesItsTurnOnly(t *testing.T) {
	c := policed(t)
	target := strings.Repeat("a", 64)
	me := ledgerNode(target, "", 7)
	newer := ledgerNode(strings.Repeat("b", 64), "", 8)
	again := ledgerNode(target, "", 9)
	system := ledgerNode("5678", "2.0.0", 1)
	other := ledgerNode("9abc", "3.0.0", 2)

	base := turns.New()
	base.State = turns.Running
	base.Holders["node-2"] = turnOf("node-2")
	has := base.Take(me, turnOf("node-1"), 2)
	hasSystem := base.Take(system, turnOf("node-1"), 2)
	halted := has.Fail(turns.Policy{}, me, "node-1", "no")
	haltedHolds := halted.Take(me, turnOf("node-1"), 2)
	systemHalted := hasSystem.Fail(turns.Policy{}, system, "node-1", "no \"quoted\"")
	moved := halted.Take(newer, turnOf("node-1"), 2)
	many := base
	for i := range 5 {
		many = many.Give(ledgerNode(fmt.Sprint(i), "1.0.0", uint64(i)), "")
	}
	systemKey := "system.loam.dev/" + system.Target
	allHad := hasSystem.Give(system, "node-1").Take(system, turnOf("node-1"), 2).Give(system, "node-1")
	restored := base
	restored.Restored = map[string]turns.Holder{"node-3": turnOf("node-3")}
	byPool := me
	byPool.Nodes = "worker.gardener.cloud/pool=pool"
	bySelector := base.Take(byPool, turnOf("node-1"), 2)
	elsewhere := turnOf("node-1")
	elsewhere.Node = "node-2"
	onAnother := base.Take(me, elsewhere, 2)
	elsewhere.Node = "../namespaces/kube-system/configmaps/x"
	onPath := base.Take(me, elsewhere, 2)
	large := turnOf("node-2")
	large.Zone = strings.Repeat("z", 150<<10)
	larger := turnOf("node-3")
	larger.Zone = large.Zone

	set := func(key, value string) func(map[string]string) {
		return func(a map[string]string) { a[key] = value }
	}
	without := func(key string) func(map[string]string) {
		return func(a map[string]string) { delete(a, key) }
	}
	for _, row := range []struct {
		name    string
		was     turns.Ledger
		now     turns.Ledger
		edit    func(now map[string]string)
		refused bool
	}{
		{"it takes its turn", base, base.Take(me, turnOf("node-1"), 2), nil, false},
		{"it gives its turn", has, has.Give(me, "node-1"), nil, false},
		{"it fails", has, halted, nil, false},
		{"it fails while paused", has.Pause("lunch"),
			has.Pause("lunch").Fail(turns.Policy{}, me, "node-1", "no"), nil, false},
		{"it postpones", has, has.Postpone(me, "node-1"), nil, false},
		{"it drops its turn", has, has.Drop("node-1", "node-1"), nil, false},
		{"it gives its turn in a halted rollout", haltedHolds, haltedHolds.Give(me, "node-1"),
			nil, false},
		{"it takes a newer target after a halt", halted, moved, nil, false},
		{"it takes a turn for a system", base, hasSystem, nil, false},
		{"it gives its turn for a system", hasSystem, hasSystem.Give(system, "node-1"), nil, false},
		{"it fails with a system", hasSystem, systemHalted, nil, false},
		{"it takes another system after a halt", systemHalted,
			systemHalted.Take(other, turnOf("node-1"), 2), nil, false},
		{"it forgets an old system", many, many.Take(other, turnOf("node-1"), 2), nil, false},
		{"it restores a ledger", turns.New(), turns.New().Restore(turns.Policy{}, turns.Me{Pool: "pool", Nodes: "a=b"}, turns.Fleet{
			{Name: "node-1", Failures: []string{turns.Failure{Target: target, Revision: 7}.String()}},
			{Name: "node-2", Mark: turnOf("node-2").String()},
		}), nil, false},
		{"it takes a turn for a system that all nodes have had", allHad,
			allHad.Take(system, turnOf("node-1"), 2), nil, false},
		{"it takes a turn for a system and has seen no labels", base, hasSystem,
			set("unlabelled.loam.dev/"+system.Target, "250"), false},
		{"it says how far the nodes are", hasSystem, hasSystem,
			set("reached.loam.dev/"+system.Target, "40"), false},
		{"it takes its turn beside one that was restored", restored,
			restored.Take(me, turnOf("node-1"), 2), nil, false},
		{"it restores a ledger from Nodes that say what no agent writes", turns.New(),
			turns.New().Restore(turns.Policy{}, turns.Me{Pool: "pool"}, turns.Fleet{
				{Name: "node-1", Failures: []string{
					turns.Failure{Target: system.Target, Version: "<", Revision: 7}.String()}},
				{Name: "node-2", Mark: large.String()},
				{Name: "node-3", Mark: larger.String()},
			}), nil, false},

		{"it halts a rollout that is paused without a reason", has.Pause(""),
			has.Pause("").Fail(turns.Policy{}, me, "node-1", "no"), nil, false},
		{"it takes a newer target after a halt, while paused", halted.Pause("lunch"),
			halted.Pause("lunch").Take(newer, turnOf("node-1"), 2), nil, false},
		{"it takes a turn by another selector", base, bySelector, nil, false},
		{"it takes the last turn for a target that has begun", has.Give(me, "node-1"),
			has.Give(me, "node-1").Take(me, turnOf("node-1"), 2), nil, false},

		{"the reason of a pause is another one", has.Pause("lunch"), has.Pause("dinner"), nil, true},
		{"the reason of a pause is that of a halt", has.Pause("lunch"),
			has.Pause("lunch").Fail(turns.Policy{}, me, "node-1", "no"),
			set("rollout.loam.dev/why", "node-1: no"), true},
		{"a reason without a halt", has, has, set("rollout.loam.dev/why", "dinner"), true},
		{"a halt for another reason", halted, halted, func(a map[string]string) {
			a["rollout.loam.dev/why"] = "dinner"
			a["rollout.loam.dev/halted"] = "dinner"
		}, true},
		{"a halt without its text", halted, halted, without("rollout.loam.dev/halted"), true},
		{"another selector without a turn", has, has,
			set("rollout.loam.dev/nodes", "kubernetes.io/hostname=node-1"), true},
		{"it has begun at no time", base, has, set("rollout.loam.dev/begun", "x"), true},
		{"it has begun at another time", has, has,
			set("rollout.loam.dev/begun", "2025-03-01T12:00:00Z"), true},
		{"it has never begun", has, has, without("rollout.loam.dev/begun"), true},
		{"a size that is no number", has, has, set("rollout.loam.dev/size", "x"), true},
		{"a revision that is no number", has, has, set("rollout.loam.dev/revision", "x"), true},
		{"a system has begun at no time", hasSystem, hasSystem, set(systemKey,
			`{"version":"2.0.0","revision":1,"begun":"12:00","done":0,"failed":0}`), true},
		{"a turn on another Node", base, onAnother, nil, true},
		{"a turn on a path", base, onPath, nil, true},
		{"a turn on two Nodes", base, has, set("holder.loam.dev/node-1", strings.Replace(
			turnOf("node-1").String(), `"since"`, `"Node":"node-2","since"`, 1)), true},
		{"a turn on two Nodes, one of them with escapes", base, has, set("holder.loam.dev/node-1",
			strings.Replace(turnOf("node-1").String(), `"since"`, `"n\u006fde":"node-2","since"`, 1)),
			true},
		{"a turn that is torn", base, has, set("holder.loam.dev/node-1", `{"id":`), true},
		{"a turn with a field of a later version", base, has, set("holder.loam.dev/node-1",
			strings.Replace(turnOf("node-1").String(), `"since"`, `"wave":1,"since"`, 1)), false},

		{"done without its turn", base, base, set("rollout.loam.dev/done", "1"), true},
		{"done twice", has, has.Give(me, "node-1"), set("rollout.loam.dev/done", "2"), true},
		{"done and postponed", has, has.Give(me, "node-1"), set("rollout.loam.dev/postponed", "1"),
			true},
		{"a failure is forgotten", haltedHolds, haltedHolds.Give(me, "node-1"),
			set("rollout.loam.dev/failed", "0"), true},
		{"a new target with many that are done", has, has.Take(newer, turnOf("node-1"), 2),
			set("rollout.loam.dev/done", "5"), true},
		{"a system is done without its turn", base.Give(system, ""), base.Give(system, ""),
			set(systemKey, `{"version":"2.0.0","revision":1,"done":1,"failed":0}`), true},
		{"a system is done twice", hasSystem, hasSystem.Give(system, "node-1"),
			set(systemKey, `{"version":"2.0.0","revision":1,"done":2,"failed":0}`), true},
		{"a system and a configuration are done", hasSystem, hasSystem.Give(system, "node-1"),
			set("rollout.loam.dev/done", "1"), true},
		{"the counts of a system are forgotten", hasSystem, hasSystem.Give(system, "node-1"),
			without(systemKey), true},

		{"a halted rollout runs", halted, halted.Resume(), nil, true},
		{"a halt without its reason", halted, halted, func(a map[string]string) {
			a["rollout.loam.dev/state"] = "running"
			a["rollout.loam.dev/halted"] = ""
		}, true},
		{"a halt is dropped while paused", halted.Pause("lunch"), halted.Pause("lunch"),
			without("rollout.loam.dev/halted"), true},
		{"a halt is kept without its reason", halted, moved,
			set("halted.loam.dev/"+target[:32], ""), true},
		{"a target that is no name of an annotation", base, has,
			set("rollout.loam.dev/target", "!/?"), true},
		{"a halt is forgotten with another target", halted, moved,
			without("halted.loam.dev/" + target[:32]), true},
		{"a halt is forgotten after another target", moved, moved,
			without("halted.loam.dev/" + target[:32]), true},
		{"the target that was halted comes back", moved, moved.Resume().Take(again, turnOf("node-1"), 2),
			set("halted.loam.dev/"+target[:32], moved.Halts[target[:32]]), true},
		{"a halted system runs", systemHalted, systemHalted.Resume(), nil, true},
		{"a halted system with an empty halt", systemHalted, systemHalted,
			set(systemKey, `{"version":"2.0.0","revision":1,"done":0,"failed":1,"halted":""}`), true},
		{"a halted system with two halts", systemHalted, systemHalted, set(systemKey,
			`{"version":"2.0.0","revision":1,"done":0,"failed":1,"halted":"no","halted":""}`), true},
		{"a halted system with a halt in other letters", systemHalted, systemHalted, set(systemKey,
			`{"version":"2.0.0","revision":1,"done":0,"failed":1,"halted":"no","Halted":""}`), true},
		{"a halted system is forgotten", systemHalted, systemHalted, without(systemKey), true},
		{"a pause ends", has.Pause("lunch"), has, nil, true},
		{"leave to change more nodes at once", has, has, set("rollout.loam.dev/now", "{}"), true},
		{"the ledger is none any more", has.Pause("lunch"), has,
			without("rollout.loam.dev/state"), true},
		{"the turn of another node is given", has, has.Drop("node-2", "node-2"), nil, true},
	} {
		for _, name := range []string{"loam-rollout-pool", "gardener-node-agent-pool"} {
			t.Run(row.name+" in "+name, func(t *testing.T) {
				was := row.was.Annotations(nil)
				now := row.now.Annotations(nil)
				if row.edit != nil {
					row.edit(now)
				}
				if maps.Equal(was, now) {
					t.Fatal("nothing changes")
				}

				path := leases + "/" + name
				_, _ = c.Do(http.MethodDelete, path, "") // It may be absent.
				c.mustDo(t, http.MethodPost, leases, ledgerLease(name, was))
				err := c.as(t, agent1, http.MethodPut, path, ledgerLease(name, now))
				if refused(err) != row.refused || (err != nil && !row.refused) {
					t.Errorf("%v", err)
				}
			})
		}
	}

	t.Run("a ledger that says it is a node's turn", func(t *testing.T) {
		_, _ = c.Do(http.MethodDelete, poolTurn, "") // It may be absent.
		c.mustDo(t, http.MethodPost, leases, turn("node-2", 600, time.Now()))
		body := strings.Replace(turn("node-1", 600, time.Now()), `{"metadata": {`,
			`{"metadata": {"annotations": {"rollout.loam.dev/state": "restoring"}, `, 1)
		if err := c.as(t, agent1, http.MethodPut, poolTurn, body); !refused(err) {
			t.Errorf("%v", err)
		}
	})
}

// TestANodeWritesBesideWhatOthersWrote has entries that people and later versions write in
// another way than the agent does. The policy compares text.
func TestANodeWritesBesideWhatOthersWrote(t *testing.T) {
	c := policed(t)
	const name = "loam-rollout-pool"
	me := ledgerNode(strings.Repeat("a", 64), "", 7)
	system := ledgerNode("5678", "2.0.0", 1)

	base := turns.New()
	base.State = turns.Running
	base.Holders["node-2"] = turnOf("node-2")
	neighbour := turnOf("node-2").String()

	type texts = map[string]string
	for _, row := range []struct {
		name    string
		written texts
	}{
		{"leave with spaces", texts{"rollout.loam.dev/now": `{"max": "30%", "why": "a hole",
			"until": "2030-03-01T13:00:00Z"}`}},
		{"a system with spaces", texts{"system.loam.dev/5678": `{"version" : "2.0.0",
			"revision" : 1, "done" : 3, "failed" : 1}`}},
		{"a halted system with spaces", texts{"system.loam.dev/5678": `{"version": "2.0.0",
			"revision": 1, "done": 3, "failed": 1, "halted" : "no"}`}},
		{"a count with a sign", texts{"rollout.loam.dev/done": "+3"}},
		{"a halt by hand", texts{"rollout.loam.dev/state": "halted"}},
		{"a halt by hand with a reason", texts{"rollout.loam.dev/state": "halted",
			"rollout.loam.dev/why": "it looks bad"}},
		{"a halt by hand beside the reason of a pause", texts{"rollout.loam.dev/state": "halted",
			"rollout.loam.dev/why": "lunch", "rollout.loam.dev/halted": "it looks bad"}},
		{"a pause by hand without a reason", texts{"rollout.loam.dev/state": "paused",
			"rollout.loam.dev/halted": "it looks bad"}},
		{"a turn with a class of a later version", texts{"holder.loam.dev/node-2": strings.Replace(
			neighbour, `"kubelet"`, `"firmware"`, 1)}},
		{"a turn with a field of a later version", texts{"holder.loam.dev/node-2": strings.Replace(
			neighbour, `{"id"`, `{"wave":1,"id"`, 1)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := leases + "/" + name
			now := base.Annotations(nil)
			maps.Copy(now, row.written)
			_, _ = c.Do(http.MethodDelete, path, "") // It may be absent.
			c.mustDo(t, http.MethodPost, leases, ledgerLease(name, now))

			write := func(what string, edit func(l turns.Ledger) turns.Ledger) {
				t.Helper()
				l, err := turns.ReadLedger(now)
				if err != nil {
					t.Fatal(err)
				}
				now = edit(l).Annotations(now)
				if err := c.as(t, agent1, http.MethodPut, path, ledgerLease(name, now)); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			turn := turnOf("node-1")
			write("it takes a turn", func(l turns.Ledger) turns.Ledger { return l.Take(me, turn, 2) })
			write("it gives it", func(l turns.Ledger) turns.Ledger { return l.Give(me, turn.ID) })
			write("it takes one for a system", func(l turns.Ledger) turns.Ledger {
				return l.Take(system, turn, 20)
			})
			write("it gives that", func(l turns.Ledger) turns.Ledger { return l.Give(system, turn.ID) })
		})
	}
}

// TestAMachineWithALongNameWritesItsTurnOnly has two machines with names that are too long
// for an annotation and begin alike, so the policy knows their turns by what is in them.
func TestAMachineWithALongNameWritesItsTurnOnly(t *testing.T) {
	c := policed(t)
	const name, path = "loam-rollout-pool", leases + "/loam-rollout-pool"
	const long = "rack-17.row-b.hall-2.plant-3.region-eu-central-1.example-industries.com"
	const own, other = long + ".a", long + ".b"
	const prefix = "gardener.cloud:node-agent:machine:"
	agent := http.Header{"Impersonate-User": {prefix + own}}
	c.mustDo(t, http.MethodPost,
		"/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings",
		`{"metadata": {"name": "long"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io",
		"kind": "Role", "name": "loam-pool"}, "subjects": [{"apiGroup": "rbac.authorization.k8s.io",
		"kind": "User", "name": "`+prefix+own+`"}]}`)

	node := func(machine string) turns.Me {
		return turns.Me{Machine: machine, Node: machine, Target: strings.Repeat("a", 64), Revision: 7}
	}
	base := turns.New()
	base.State = turns.Running
	base = base.Take(node("node-2"), turnOf("node-2"), 3)
	taken := base.Take(node(own), turnOf(own), 3)
	others := base.Take(node(other), turnOf(other), 3)
	both := others.Take(node(own), turnOf(own), 3)
	restored := others
	restored.Restored = map[string]turns.Holder{own: turnOf(own)}
	again := turnOf(other)
	again.ID = "another"

	for _, row := range []struct {
		name     string
		was, now turns.Ledger
		refused  bool
	}{
		{"it takes its turn", base, taken, false},
		{"it takes its turn beside the other one", others, both, false},
		{"it gives its turn", both, both.Give(node(own), own), false},
		{"it fails", both, both.Fail(turns.Policy{}, node(own), own, "no"), false},
		{"it takes its turn after it was restored", restored,
			restored.Take(node(own), turnOf(own), 3), false},
		{"a turn for the other one", base, others, true},
		{"another turn of the other one", both, both.Take(node(other), again, 3), true},
		{"the turn of the other one, given", both, both.Drop(other, other), true},
		{"the turn of node-2, given", both, both.Drop("node-2", "node-2"), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, _ = c.Do(http.MethodDelete, path, "") // It may be absent.
			c.mustDo(t, http.MethodPost, leases, ledgerLease(name, row.was.Annotations(nil)))
			err := c.as(t, agent, http.MethodPut, path, ledgerLease(name, row.now.Annotations(nil)))
			if refused(err) != row.refused || (err != nil && !row.refused) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestTheLastTurnOfALedgerFits has the API server judge the largest ledger, with the
// failures that come after it.
func TestTheLastTurnOfALedgerFits(t *testing.T) {
	c := Start(t, Options{})
	const name = "loam-rollout-pool"
	l := turns.New()
	l.State = turns.Running
	add := func(n int) {
		h := turnOf(fmt.Sprintf("node-of-a-pool-with-a-long-name-%d", n))
		h.Node = h.Machine + strings.Repeat("x", 200)
		h.UID = strings.Repeat("u", 36)
		h.Target = strings.Repeat("a", 64)
		l.Holders[h.Machine] = h
	}
	put := func() error {
		return c.as(t, http.Header{}, http.MethodPut, leases+"/"+name, ledgerLease(name, l.Annotations(nil)))
	}
	c.mustDo(t, http.MethodPost, leases, ledgerLease(name, l.Annotations(nil)))

	for range turns.MaxHolders() / 2 {
		add(len(l.Holders))
	}
	if !turns.HasRoom(l) {
		t.Fatalf("%d turns do not fit", len(l.Holders))
	}
	for turns.HasRoom(l) {
		add(len(l.Holders))
	}
	if err := put(); err != nil {
		t.Errorf("%d turns: %v", len(l.Holders), err)
	}

	for i := range 4 {
		me := ledgerNode(fmt.Sprint(i), "2.0.0", 1)
		me.Machine = "node-of-a-pool-with-a-long-name-0"
		l.Holders[me.Machine] = turnOf(me.Machine)
		l = l.Fail(turns.Policy{}, me, me.Machine, strings.Repeat("y", 1000))
	}
	if err := put(); err != nil {
		t.Errorf("%d turns and failures: %v", len(l.Holders), err)
	}

	for range turns.MaxHolders() / 10 {
		add(len(l.Holders) + 1)
	}
	if err := put(); err == nil || !strings.Contains(err.Error(), "262144") {
		t.Errorf("%d turns: %v", len(l.Holders), err)
	}
}

// ledgerLease returns the Lease of a ledger.
func ledgerLease(name string, annotations map[string]string) string {
	text, _ := json.Marshal(annotations) // Strings only.
	return fmt.Sprintf(`{"metadata": {"name": %q, "annotations": %s},
		"spec": {"holderIdentity": "running: 1 away"}}`, name, text)
}
