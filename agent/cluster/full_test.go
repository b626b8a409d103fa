package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/files"
)

// fullDisk is a state partition on which step number at of a record finds no room,
// and so do all after it until there is room.
type fullDisk struct {
	at            int
	errno         unix.Errno
	steps         int
	full, reached bool
}

func (d *fullDisk) hook(s durable.Step) error {
	if s.Op == durable.Remove || s.Op == durable.SyncDir { // They need none.
		return nil
	}
	if d.steps == d.at && !d.reached {
		d.full = true
		d.reached = true
	}
	d.steps++
	if d.full {
		return &durable.Fault{Err: d.errno}
	}
	return nil
}

// oneNode is an API server with one Node and the ledger of its pool.
type oneNode struct {
	leases leaseServer
	node   *core.Node
}

func (s *oneNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.Contains(r.URL.Path, "/leases"):
		s.leases.ServeHTTP(w, r)
	case r.Method == http.MethodGet:
		fmt.Fprintf(w, `{"columnDefinitions": [{"name": "Name"}, {"name": "Status"}, {"name": "Roles"}],
			"rows": [{"cells": [%q, "Ready", "<none>"], "object": null}]}`, s.node.Name)
	default:
		if err := s.patch(r); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(s.node)
	}
}

// patch merges labels and annotations.
func (s *oneNode) patch(r *http.Request) error {
	var p struct {
		Metadata struct{ Labels, Annotations map[string]*string }
	}
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		return err
	}

	for have, values := range map[*map[string]string]map[string]*string{
		&s.node.Labels: p.Metadata.Labels, &s.node.Annotations: p.Metadata.Annotations,
	} {
		for name, value := range values {
			if *have == nil {
				*have = map[string]string{}
			}
			delete(*have, name)
			if value != nil {
				(*have)[name] = *value
			}
		}
	}
	return nil
}

// withoutPods is an updateController whose node has no pods to delete.
type withoutPods struct{ *updateController }

func (c withoutPods) step(ctx context.Context, w *world) (outcome, error) {
	if d := c.updates.decide(*w); d.action == updateRun && d.step == inplace.Clear {
		c.start(w, d.step, func(context.Context) error { return nil })
		return outcome{}, nil
	}
	return c.updateController.step(ctx, w)
}

// course is a node that is updated in place in its turn.
type course struct {
	*testing.T
	root   *os.Root
	disk   *fullDisk
	server *oneNode
	*session
	uptime time.Duration
	group  sync.WaitGroup
	posted chan func()
}

func newCourse(t *testing.T, disk *fullDisk) *course {
	c := &course{
		T:      t,
		root:   files.Root(t),
		disk:   disk,
		server: &oneNode{},
		posted: make(chan func(), 10),
	}
	w := newWorld()
	w.config.Machine = "machine-1"
	w.pending = &pendingConfig{sum: "old", label: "old", update: &inplace.Facts{Kubelet: "1.35"}}
	w.ready = "old"
	w.reported = "old"
	w.node.UID = "1"
	w.node.APIVersion = "v1"
	w.node.Kind = "Node"
	w.node.Status.Conditions = []core.NodeCondition{
		{Type: core.NodeReady, Status: core.ConditionTrue},
	}
	c.server.node = w.node.DeepCopy()
	c.start(w)
	return c
}

// start is a start of the agent: it knows what the disk has.
func (c *course) start(w world) {
	c.session = newTestSession(c.T, &c.uptime)
	env := c.session.env
	env.Root = c.root
	env.hook = c.disk.hook
	env.Kubelet = func(context.Context) error { return nil }
	c.session.env = env

	m := &memory{world: w, updates: loadUpdates(c.root, env.Log)}
	m.world.turn = loadTurn(c.root, env.Log)
	c.memory = m
	c.link.record("node", nil, noon)

	here := jobs{
		ctx:   c.Context(),
		group: &c.group,
		post:  func(_ context.Context, f func()) { c.posted <- f },
	}
	conn := connection{api: newTestAPI(c.T, c.server), session: here, lasting: here}
	update := &updateController{updates: &m.updates, env: env, conn: conn, inbox: c.inbox}
	rollout := newTestRollout(c.T, c.server, &c.uptime)
	c.parts = []part{
		{controller: &releaseController{
			released: &released{changed: make(chan struct{}, 1)},
			rollout:  rollout,
			updates:  update,
		}},
		{controller: withoutPods{update}},
		{controller: &turnController{
			api:     conn.api,
			env:     env,
			jobs:    here,
			inbox:   c.inbox,
			updates: &m.updates,
			system:  newSystemTurn(false),
			count:   &turnCount{},
		}},
		{controller: &baselineController{updates: &m.updates, dir: env.records()}},
	}
}

// next runs a step of the session, and what it has begun.
func (c *course) next() {
	c.step(c.Context())
	c.group.Wait()
	for len(c.posted) > 0 {
		(<-c.posted)()
	}
	for len(c.inbox.events) > 0 {
		<-c.inbox.events
	}
	c.uptime += time.Second
}

// until runs steps until the world is as it is to be. If the disk gets full
// meanwhile, the agent may start again before there is room.
func (c *course) until(
	what string, is func(w *world, r inplace.Record, t turns.Turn) bool, starts bool,
) {
	c.Helper()
	for range 300 {
		c.next()
		if c.disk.full {
			c.withoutRoom(what)
			if starts {
				c.start(c.memory.world)
			}
			c.disk.full = false
			continue
		}
		r, t := c.records()
		if is(&c.memory.world, r, t) {
			return
		}
	}
	r, t := c.records()
	c.Fatalf("step %d: %s: it does not go on: %+v, %+v, %+v", c.disk.at, what, r, t, c.link.get())
}

// records are what the disk has.
func (c *course) records() (inplace.Record, turns.Turn) {
	c.Helper()
	r, _, err := loadRecord(c.root)
	if err != nil {
		c.Fatalf("step %d: %v", c.disk.at, err)
	}
	var t turnRecord
	if _, err := durable.ReadJSON(c.root.FS(), turnName, &t); err != nil {
		c.Fatalf("step %d: %v", c.disk.at, err)
	}
	return r, t.Turn
}

// withoutRoom checks that nothing is lost or goes on while there is no room, and
// that the status says why.
func (c *course) withoutRoom(what string) {
	c.Helper()
	before, turn := c.records()
	released := c.memory.world.released.sum
	for range 3 {
		c.next()
		l := c.link.get()
		if l.Code != fault.DiskFull || l.Hint == "" || !l.Connected || l.Tried != "" ||
			!strings.Contains(l.Problem, c.disk.errno.Error()) ||
			(!strings.Contains(l.Problem, "the turn") &&
				!strings.Contains(l.Problem, "record of updates in place")) {
			c.Errorf("step %d: %s: the status says %+v", c.disk.at, what, l)
		}
	}
	n := c.server.node
	if n.Labels[resultLabel] == failedResult &&
		!strings.Contains(n.Annotations[reasonAnnotation], c.disk.errno.Error()) {
		c.Errorf("step %d: %s: the Node says %v", c.disk.at, what, n.Annotations)
	}
	if c.memory.world.released.sum != released {
		c.Errorf("step %d: %s: a configuration is released without its record", c.disk.at, what)
	}
	if r, t := c.records(); fmt.Sprint(r, t) != fmt.Sprint(before, turn) {
		c.Errorf("step %d: %s: %+v, %+v are lost: %+v, %+v", c.disk.at, what, before, turn, r, t)
	}
}

// holders returns how many turns the ledger has.
func (c *course) holders() int {
	if c.server.leases.lease == nil {
		return 0
	}
	ledger, err := turns.ReadLedger(c.server.leases.lease.Annotations)
	if err != nil {
		c.Fatal(err)
	}
	return len(ledger.Holders)
}

// TestAFullDiskAtEachRecord fills the state partition, or uses up a quota, at each
// step of each record of a turn and of an update in place.
func TestAFullDiskAtEachRecord(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENOSPC, unix.EDQUOT} {
		for _, starts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, the agent starts again %t", errno, starts), func(t *testing.T) {
				at := 0
				for ; run(t, &fullDisk{at: at, errno: errno}, starts); at++ {
				}
				if at < 40 {
					t.Errorf("only %d steps", at)
				}
				t.Logf("%d steps", at)
			})
		}
	}
}

// run plays the course, and reports whether it has so many steps.
func run(t *testing.T, disk *fullDisk, starts bool) bool {
	t.Helper()
	c := newCourse(t, disk)
	c.until("the first record", func(_ *world, r inplace.Record, _ turns.Turn) bool {
		return r.Done.Kubelet == "1.35"
	}, starts)

	policy, err := turns.ParsePolicy("policy", []byte(`{"maxUnavailable": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	w := &c.memory.world
	w.setPending(pendingConfig{
		secret: "pool",
		sum:    "new",
		target: "new",
		label:  "new",
		since:  w.now,
		update: &inplace.Facts{Kubelet: "1.36", ServiceAccountKey: noon},
		policy: &policy,
	})
	drained := core.NodeCondition{Type: updateCondition, Reason: drainedReason}
	c.server.node.Status.Conditions = append(c.server.node.Status.Conditions, drained)
	w.setNode(c.server.node.DeepCopy())
	c.until("to begin", func(w *world, r inplace.Record, _ turns.Turn) bool {
		return w.released.sum == "new" && r.Version == "new"
	}, starts)
	if _, turn := c.records(); turn.Phase != turns.Holding || c.holders() != 1 {
		t.Errorf("step %d: a configuration without its turn: %+v, %d", disk.at, turn, c.holders())
	}

	w = &c.memory.world
	w.status.Version = "new"
	w.status.Offered = "new"
	w.status.Generation = "000002-0123456789ab"
	w.ready = "new"
	c.until("the steps of the update", func(_ *world, r inplace.Record, _ turns.Turn) bool {
		return r.Version == "" && r.Done.Kubelet == "1.36" && r.Done.ServiceAccountKey.Equal(noon)
	}, starts)

	c.memory.world.reported = "new"
	c.until("to give the turn", func(_ *world, _ inplace.Record, turn turns.Turn) bool {
		return turn.Phase == turns.Over && c.holders() == 0
	}, starts)

	c.memory.world.pending.update = nil
	c.until("a configuration without updates", func(*world, inplace.Record, turns.Turn) bool {
		_, err := c.root.Lstat(recordName)
		return errors.Is(err, os.ErrNotExist)
	}, starts)
	n := c.server.node
	if n.Labels[resultLabel] != successResult || n.Annotations[turnAnnotation] != "" {
		t.Errorf("step %d: the Node has %v %v", disk.at, n.Labels, n.Annotations)
	}
	c.next()
	if l := c.link.get(); l.Problem != "" {
		t.Errorf("step %d: with room: %+v", disk.at, l)
	}
	return disk.reached
}
