package cluster

import (
	"bytes"
	"context"
	"fmt"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"go.uber.org/zap"
)

// observe watches the one object that q finds. The session's goroutine calls
// seen, with ok false if the object does not exist.
func observe[T runtime.Object](
	ctx context.Context, s *session, q query, kind T, seen func(object T, ok bool),
) {
	observeAll(ctx, s, q, kind, func(objects []T) {
		if len(objects) == 0 {
			var none T
			seen(none, false)
			return
		}
		seen(objects[len(objects)-1], true)
	})
}

// observeAll is observe for any number of objects.
func observeAll[T runtime.Object](
	ctx context.Context, s *session, q query, kind T, seen func(objects []T),
) {
	s.group.Go(func() {
		key := q.String()
		defer s.setProblem(key, "")
		tried := func(err error) { s.post(ctx, func() { s.handleResult(key, err) }) }
		first := true
		begun := func() {
			if !first {
				s.watches.Add(1)
			}
			first = false
		}

		watch(ctx, q, kind, begun, tried, func(objects []T) {
			s.post(ctx, func() { seen(objects) })
		})
	})
}

// watchSecret keeps pending up to date with the Secret.
func (s *session) watchSecret(ctx context.Context) {
	name := s.Link().Secret
	q := byName(s.api.core, "secrets", namespace, name)
	observe(ctx, s, q, &core.Secret{}, func(secret *core.Secret, ok bool) {
		if !ok {
			s.Log.Warn("the Secret with the configuration does not exist", zap.String("secret", name))
			secret = &core.Secret{}
			secret.Name = name
			if s.releasedConfig() != nil && s.releasedConfig().text != nil {
				return // The node keeps its configuration.
			}
		}

		pending := pendingConfigOf(secret, s.Now())
		if s.pending != nil && bytes.Equal(s.pending.text, pending.text) {
			pending.since = s.pending.since
		}

		s.pending = &pending
		s.update.want, s.update.unclear = s.factsOf(pending.text)
	})
}

// releasedConfig returns the configuration that Read returns, nil for none.
func (c *Cluster) releasedConfig() *pendingConfig {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.released
}

// watchNode watches the Node by its name or, until that is known, by its host
// name label. An API server counts a watch by label for every write of any Node
// and throttles it: a thousand nodes would wait for each other.
func (s *session) watchNode(name string) {
	if s.unwatch != nil {
		s.unwatch()
	}

	q := query{client: s.api.core, resource: "nodes", labels: hostnameLabel + "=" + s.hostname()}
	if name != "" {
		q = byName(s.api.core, "nodes", "", name)
	}

	var ctx context.Context
	ctx, s.unwatch = context.WithCancel(s.ctx)
	s.watchedName = name

	observeAll(ctx, s, q, &core.Node{}, func(nodes []*core.Node) {
		if ctx.Err() != nil {
			return
		}
		if len(nodes) == 1 {
			s.setProblem("node", "")
			s.nodeSeen(nodes[0], true)
			return
		}
		if len(nodes) > 1 {
			s.setProblem("node", fmt.Sprintf("%d Nodes have the host name %s: %s, %s",
				len(nodes), s.hostname(), nodes[0].Name, nodes[1].Name))
		}
		s.nodeSeen(nil, false)
	})
}

func (s *session) nodeSeen(n *core.Node, ok bool) {
	switch {
	case ok && s.watchedName == "":
		s.watchNode(n.Name)
	case !ok && s.watchedName != "":
		s.watchNode("")
	}

	if ok && s.seen && isOlderNode(n, s.node) {
		return // The answer to our own patch was newer.
	}

	if ok && s.node != nil && !isNodeReady(s.node) && isNodeReady(n) {
		var often bool
		s.flaps, often = s.flaps.next(s.Now())
		if often {
			s.Event(true, "NodeFlapping",
				fmt.Sprintf("the kubelet became ready %d times within %s", maxFlaps, flapWindow))
		}
	}

	s.node = nil
	s.nodeKnown = true
	s.seen = true

	if ok {
		s.node = n
	}

	s.delay = delay(s.node, s.delay)
	name := ""
	if ok {
		name = n.Name
		s.useSecret(n.Labels[secretLabel])
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.link.Node = name
	s.link.Ready = isNodeReady(s.node)
}

// isOlderNode reports whether n is an older version of the known Node.
func isOlderNode(n, known *core.Node) bool {
	return known != nil && isOlder(n, known)
}

// isOlder reports whether o is an older version of the known object.
func isOlder(o, known meta.Object) bool {
	if o.GetUID() != known.GetUID() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(),
		known.GetResourceVersion())
	return err == nil && order < 0
}

// useSecret switches to the Secret of that name, which a label of the Node
// sets. Removing the label changes nothing.
func (s *session) useSecret(name string) {
	if name == "" || name == s.Link().Secret {
		return
	}

	if err := s.store().saveSecret(name, s.SecretName); err != nil {
		s.Log.Error("save the name of the Secret", zap.Error(err))
		return
	}

	s.Log.Info("the Node names another Secret", zap.String("secret", name))
	s.mu.Lock()
	defer s.mu.Unlock()

	s.link.Secret = name
	s.finished = true
}
