package cluster

import (
	"context"

	core "k8s.io/api/core/v1"
)

// readiness tracks what must be true before the Node reports a configuration as
// applied.
type readiness struct {
	// generation is the generation that static was read from.
	generation string
	static     []staticPod
	err        error
	// pods are the pods of the Node, watched until all static ones run.
	pods []*core.Pod
	stop context.CancelFunc
}

// readyDigest returns the digest of the configuration that the Node may report
// as applied. It is "" while the node runs another configuration, while an
// update in place is unfinished, or while a static pod does not match its
// manifest. A configuration that was reported once is not checked again.
func (s *session) readyDigest() string {
	sum := s.status.Version
	switch {
	case sum == "" || s.node == nil || s.pending == nil || sum != s.pending.sum ||
		s.update.record.Version == sum:
		return ""
	case s.reportedDigest == sum,
		s.reportedDigest == "" && s.node.Annotations[appliedAnnotation] == s.pending.label:
		s.dropReadiness()
		return sum
	}

	if why := s.podsNotReady(); why != "" {
		s.setBlocked(why)
		return ""
	}

	s.dropReadiness()
	return sum
}

// podsNotReady says which static pod of the configuration does not run, and
// watches the pods until it does. Other manifests in the kubelet's directory do
// not count.
func (s *session) podsNotReady() string {
	p := &s.readiness
	if p.generation != s.status.Generation || p.err != nil {
		p.generation = s.status.Generation
		p.static, p.err = staticPods(s.Root.FS(), s.status.StaticPods)
	}

	switch {
	case p.err != nil:
		s.wakeAt(s.Now().Add(retryStep)) // The manifest may be corrected.
		return p.err.Error()
	case len(p.static) == 0:
		return ""
	case p.stop == nil:
		var ctx context.Context
		ctx, p.stop = context.WithCancel(s.ctx)
		observeAll(ctx, s, podsOf(s.api, s.node.Name), &core.Pod{}, func(pods []*core.Pod) {
			p.pods = pods
		})
	}

	return notReady(p.static, s.node.Name, p.pods)
}

func (s *session) dropReadiness() {
	if s.readiness.stop != nil {
		s.readiness.stop()
	}
	s.readiness = readiness{}
}
