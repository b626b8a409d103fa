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

// observe watches the one object that q finds beside the session, which calls
// seen, with false if there is none.
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
		defer s.note(key, "")
		tried := func(err error) { s.post(ctx, func() { s.answered(key, err) }) }
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

// watchSecret keeps the offer what the Secret says.
func (s *session) watchSecret(ctx context.Context) {
	name := s.Link().Secret
	observe(ctx, s, byName(s.api.core, "secrets", namespace,
		name), &core.Secret{}, func(secret *core.Secret, ok bool) {
		if !ok {
			s.Log.Warn("the Secret with the configuration is not there", zap.String("secret", name))
			secret = &core.Secret{}
			secret.Name = name
			if s.isReleased() != nil && s.isReleased().text != nil {
				return // The node keeps what it has.
			}
		}

		o := offerOf(secret, s.Now())
		if s.offer != nil && bytes.Equal(s.offer.text, o.text) {
			o.since = s.offer.since
		}

		s.offer = &o
		s.update.want, s.update.unclear = s.factsOf(o.text)
	})
}

// isReleased is what Read returns now, nil for nothing.
func (c *Cluster) isReleased() *offer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.released
}

// watchNode watches the Node by its name or, while that is not known, by the
// host name. An API server takes each watch by a label into account for every
// write of any Node, and lets fewer through: a thousand nodes would wait for
// each other.
func (s *session) watchNode(name string) {
	if s.unwatch != nil {
		s.unwatch()
	}

	q := query{client: s.api.core, resource: "nodes", labels: hostnameLabel + "=" + s.hostname()}
	if name != "" {
		q = byName(s.api.core, "nodes", "", name)
	}

	var ctx context.Context
	ctx, s.unwatch = context.WithCancel(s.whole)
	s.named = name

	observeAll(ctx, s, q, &core.Node{}, func(nodes []*core.Node) {
		if ctx.Err() != nil {
			return
		}
		if len(nodes) == 1 {
			s.note("node", "")
			s.nodeSeen(nodes[0], true)
			return
		}
		if len(nodes) > 1 {
			s.note("node", fmt.Sprintf("%d Nodes have the host name %s: %s, %s",
				len(nodes), s.hostname(), nodes[0].Name, nodes[1].Name))
		}
		s.nodeSeen(nil, false)
	})
}

func (s *session) nodeSeen(n *core.Node, ok bool) {
	switch {
	case ok && s.named == "":
		s.watchNode(n.Name)
	case !ok && s.named != "":
		s.watchNode("")
	}

	if ok && s.seen && older(n, s.node) {
		return // What the answer to a patch has said already is newer.
	}

	if ok && s.node != nil && !isNodeReady(s.node) && isNodeReady(n) {
		var often bool
		s.flaps, often = s.flaps.next(s.Now())
		if often {
			s.Event(true, "NodeFlapping",
				fmt.Sprintf("the kubelet became ready %d times within %s", flapsMany, flapsTime))
		}
	}

	s.node = nil
	s.looked = true
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

// older reports whether n is a state of the Node before the one that is known.
func older(n, known *core.Node) bool {
	return known != nil && olderVersion(n, known)
}

// olderVersion reports whether o is a state of the object before the one that
// is known.
func olderVersion(o, known meta.Object) bool {
	if o.GetUID() != known.GetUID() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(),
		known.GetResourceVersion())
	return err == nil && order < 0
}

// useSecret goes on with the Secret of that name, as the Node's label says. A
// label that is gone changes nothing.
func (s *session) useSecret(name string) {
	if name == "" || name == s.Link().Secret {
		return
	}

	if err := s.keep().saveSecret(name, s.SecretName); err != nil {
		s.Log.Error("keep the name of the Secret", zap.Error(err))
		return
	}

	s.Log.Info("the Node names another Secret", zap.String("secret", name))
	s.mu.Lock()
	defer s.mu.Unlock()

	s.link.Secret = name
	s.over = true
}
