package turns

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestNodesFollowEachOther has the nodes of large pools restart their kubelets in their
// order: with few writes in vain, and without a stop where most nodes run the target
// already, or the ledger was lost.
func TestNodesFollowEachOther(t *testing.T) {
	for _, tt := range []struct {
		name       string
		size, free int
		changes    float64 // The share of the nodes that changes.
		from       int     // The first rank that changes.
		within     time.Duration
		asks       float64 // The writes a node, with those in vain.
		write      time.Duration
	}{
		{"5,000 nodes", 5000, 250, 1, 0, 10 * time.Minute, 5, writing},
		{"2,000 of 5,000 nodes", 5000, 250, 0.4, 0, 15 * time.Minute, 8, writing},
		{"500 of 5,000 nodes", 5000, 250, 0.1, 0, 10 * time.Minute, 3, writing},
		{"50 of 5,000 nodes", 5000, 250, 0.01, 0, 10 * time.Minute, 2, writing},
		{"50 of 5,000 nodes, one at a time", 5000, 1, 0.01, 0, 90 * time.Minute, 2, writing},
		{"the last 2,500 of 5,000 nodes", 5000, 250, 1, 2500, 12 * time.Minute, 8, writing},
		{"5,000 nodes, and an overloaded API server", 5000, 250, 1, 0, 2 * time.Hour, 15, time.Second},
		{"2,000 of 5,000 nodes, and an overloaded one", 5000, 250, 0.4, 0, time.Hour, 15, time.Second},
		{"500 nodes, 10 at a time", 500, 10, 1, 0, 20 * time.Minute, 3, writing},
		{"50 of 500 nodes, one at a time", 500, 1, 0.1, 0, 90 * time.Minute, 2, writing},
		{"200 nodes, one at a time", 200, 1, 1, 0, 60 * time.Minute, 2, writing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &queue{
				size:  tt.size,
				free:  tt.free,
				write: tt.write,
				rand:  rand.New(rand.NewPCG(1, 2)),
			}
			for i := range tt.size {
				me := Me{Machine: fmt.Sprint("machine-", i), Target: "new", Class: Kubelet}
				isLate := position(me)*float64(tt.size) >= float64(tt.from)
				if isLate && p.rand.Float64() < tt.changes {
					p.left++
					p.after(p.about(time.Second), func() { p.look(&asker{Me: me}) })
				}
			}
			nodes := p.left
			p.run()

			asks := float64(p.asked) / float64(nodes)
			t.Logf("%d nodes in %s, %.1f writes a node, %d looks a node, %d at once",
				nodes, p.now.Round(time.Second), asks, p.looked/nodes, p.mostAsking)
			if p.left > 0 || p.now > tt.within || asks > tt.asks {
				t.Errorf("%d nodes left after %s, want 0 within %s; %.1f writes a node, want %.1f at most",
					p.left, p.now, tt.within, asks, tt.asks)
			}
		})
	}
}

// asker is a node that waits for its turn. It has seen that version of the ledger since.
type asker struct {
	Me
	version   int
	since     time.Duration
	conflicts int
}

// queue is a pool whose nodes take turns by their order alone, in virtual time.
type queue struct {
	size, free int
	write      time.Duration // From the look at a ledger to the answer to the write.
	rollout    Rollout
	begun      int
	left       int

	// version is that of the ledger.
	version int

	now    time.Duration
	events events
	rand   *rand.Rand

	asked, looked, asking, mostAsking int
}

// run does what happens, until all nodes have changed, or for a day.
func (q *queue) run() {
	for q.left > 0 && q.now < 24*time.Hour {
		e := heap.Pop(&q.events).(event)
		q.now = e.at
		e.happens()
	}
}

func (q *queue) after(d time.Duration, happens func()) {
	heap.Push(&q.events, event{q.now + d, happens})
}

// about returns a duration between half of d and one and a half.
func (q *queue) about(d time.Duration) time.Duration {
	return time.Duration((q.rand.Float64() + 0.5) * float64(d))
}

// look reads the ledger, and asks for a turn if the order says so and one is free.
func (q *queue) look(n *asker) {
	q.looked++
	if n.version != q.version || n.since == 0 {
		n.version = q.version
		n.since = q.now
	}
	n.Unchanged = q.now - n.since

	d := inOrder(q.rollout, n.Me, q.size, q.begun, max(1, q.free-q.begun), noon.Add(q.now))
	switch {
	case d.Verdict != Take:
		q.after(max(time.Second, q.about(d.Until.Sub(noon.Add(q.now)))), func() { q.look(n) })
	case q.begun == q.free:
		q.after(q.about(pause(n.Me, q.size)), func() { q.look(n) })
	default:
		q.asked++
		q.asking++
		q.mostAsking = max(q.mostAsking, q.asking)
		took := q.about(q.write)
		q.after(took, func() { q.take(n, took) })
	}
}

// take writes the turn of n, unless another node has written since n has looked.
func (q *queue) take(n *asker, took time.Duration) {
	q.asking--
	if n.version != q.version {
		q.after(q.about(max(500*time.Millisecond<<min(n.conflicts, 3), 8*took)), func() { q.look(n) })
		n.conflicts++
		return
	}
	q.version++
	if q.rollout.Begun.IsZero() {
		q.rollout.Begun = noon.Add(q.now)
	}
	q.rollout.Reached = reachedBy(q.rollout, n.Me, q.size, q.begun)
	q.begun++
	q.after(q.about(pace[Kubelet]), q.give)
}

func (q *queue) give() {
	q.version++
	q.begun--
	q.left--
	q.rollout.Done++
}

// event is what happens at a time.
type event struct {
	at      time.Duration
	happens func()
}

// events are those to come, as a heap.
type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
