package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/cluster/reach"
	"github.com/loam-os/loam/hint/fault"
)

// watcher watches objects for one session.
type watcher struct {
	// ctx ends with the session, which waits for group.
	ctx   context.Context
	group *sync.WaitGroup
	inbox inbox
	link  *link

	// restarts counts the watches that were restarted.
	restarts *atomic.Int64

	// result receives the result of each request, on the goroutine of Run.
	result func(key string, err error)
}

// watchOne watches the one object that q finds until ctx ends. The goroutine of
// Run calls seen, with ok false if the object does not exist.
func watchOne[T runtime.Object](
	ctx context.Context, w *watcher, q query, kind T, seen func(object T, ok bool),
) {
	watchAll(ctx, w, q, kind, func(objects []T) {
		if len(objects) == 0 {
			var none T
			seen(none, false)
			return
		}
		seen(objects[len(objects)-1], true)
	})
}

// watchAll is watchOne for any number of objects.
func watchAll[T runtime.Object](
	ctx context.Context, w *watcher, q query, kind T, seen func(objects []T),
) {
	w.group.Go(func() {
		key := q.String()
		defer w.link.setProblem(key, reach.Problem{})

		first := true
		begun := func() {
			if !first {
				w.restarts.Add(1)
			}
			first = false
		}

		result := func(err error) { w.inbox.post(ctx, func() { w.result(key, err) }) }
		watch(ctx, q, kind, begun, result, func(objects []T) {
			w.inbox.post(ctx, func() { seen(objects) })
		})
	})
}

// watchSecret watches the Secret with the configuration.
func watchSecret(conn connection, m *memory, env Env) {
	name := m.world.secret
	seen := func(secret *core.Secret, ok bool) {
		conn.watcher.link.setProblem("configuration", absentSecret(name, ok))
		if !ok {
			env.Log.Warn("the Secret with the configuration does not exist",
				zap.String("secret", name))
			secret = &core.Secret{}
			secret.Name = name
			if m.world.changes() {
				return // The node keeps its configuration.
			}
		}

		m.world.setPending(pendingConfigOf(secret, m.world.config.hostname(), env.Now()))
	}

	q := byName(conn.api.core, "secrets", namespace, name)
	watchOne(conn.watcher.ctx, conn.watcher, q, &core.Secret{}, seen)
}

// absentSecret is the problem of a node whose configuration does not exist; zero
// if it is there.
func absentSecret(name string, there bool) reach.Problem {
	if there {
		return reach.Problem{}
	}
	return reach.Problem{
		Text: fmt.Sprintf("the cluster has no Secret %s/%s with a configuration", namespace, name),
		Hint: "`secret` in machine.yaml names it, or the label " + secretLabel + " of the Node",
		Code: fault.ContentMissing,
	}
}

// nodeWatch watches the Node by its name or, until that is known, by its host
// name label. An API server counts a watch by label for every write of any Node
// and throttles it: a thousand nodes would wait for each other.
type nodeWatch struct {
	conn   connection
	memory *memory
	env    Env
	inbox  inbox

	// name is the watched name, "" for a watch by label. stop ends the watch.
	name string
	stop context.CancelFunc
}

// watch replaces the watch by one of the Node of that name, "" for one by
// label.
func (n *nodeWatch) watch(name string) {
	if n.stop != nil {
		n.stop()
	}

	hostname := n.memory.world.config.hostname()
	q := query{client: n.conn.api.core, resource: "nodes", labels: hostnameLabel + "=" + hostname}
	if name != "" {
		q = byName(n.conn.api.core, "nodes", "", name)
	}

	var ctx context.Context
	ctx, n.stop = context.WithCancel(n.conn.watcher.ctx)
	n.name = name

	watcher := *n.conn.watcher
	watcher.result = func(key string, err error) {
		if err != nil && ctx.Err() == nil {
			n.memory.world.loseNode()
		}
		n.conn.watcher.result(key, err)
	}
	watchAll(ctx, &watcher, q, &core.Node{}, func(nodes []*core.Node) {
		if ctx.Err() != nil {
			return
		}

		switch len(nodes) {
		case 0:
			n.see(nil)
		case 1:
			n.conn.watcher.link.setProblem("node", reach.Problem{})
			n.see(nodes[0])
		default:
			problem := fmt.Sprintf("%d Nodes have the host name %s: %s, %s",
				len(nodes), hostname, nodes[0].Name, nodes[1].Name)
			n.conn.watcher.link.setProblem("node", reach.Problem{Text: problem})
			n.see(nil)
			n.memory.world.absent = absence{} // None of them was deleted.
		}
	})
}

// see records the newest version of the Node, nil if it does not exist.
func (n *nodeWatch) see(node *core.Node) {
	w := &n.memory.world
	if node == nil {
		w.setNode(nil)
		if n.name != "" {
			w.loseNode() // The news may be old: there may be another one.
			n.watch("")
		}
		return
	}

	if n.name == "" {
		n.watch(node.Name)
	}
	if w.isStale(node) {
		return
	}

	if w.node != nil && !isNodeReady(w.node) && isNodeReady(node) {
		var often bool
		n.memory.flaps, often = n.memory.flaps.next(n.env.Now())
		if often {
			n.inbox.event(true, "NodeFlapping",
				fmt.Sprintf("the kubelet became ready %d times within %s", maxFlaps, flapWindow))
		}
	}

	w.setNode(node)
	n.useSecret(node.Labels[secretLabel])
}

// useSecret switches to the Secret of that name, which a label of the Node
// sets. Removing the label changes nothing.
func (n *nodeWatch) useSecret(name string) {
	w := &n.memory.world
	if name == "" || name == w.secret {
		return
	}

	err := saveSecretName(n.env.records(), name, w.config.SecretName)
	if err != nil {
		n.env.Log.Error("save the name of the Secret", zap.Error(err))
		return
	}

	n.env.Log.Info("the Node names another Secret", zap.String("secret", name))
	w.secret = name
	w.ending = true
}

// A Node whose kubelet becomes ready maxFlaps times within flapWindow is
// reported as flapping.
const (
	maxFlaps   = 5
	flapWindow = 10 * time.Minute
)

// flaps are the times at which a Node became ready again.
type flaps []time.Time

// next adds now and reports whether the Node is flapping. Then the count starts
// over.
func (f flaps) next(now time.Time) (flaps, bool) {
	f = append(slices.DeleteFunc(slices.Clone(f), func(at time.Time) bool {
		return now.Sub(at) > flapWindow
	}), now)
	if len(f) < maxFlaps {
		return f, false
	}
	return nil, true
}
