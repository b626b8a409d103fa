package cluster

import (
	"context"

	core "k8s.io/api/core/v1"
)

// proof is what has to be seen before the Node says that it runs a
// configuration.
type proof struct {
	// generation is the one that static are the static pods of.
	generation string
	static     []staticPod
	err        error
	// pods are those of the Node, watched until all static ones run.
	pods []*core.Pod
	stop context.CancelFunc
}

// proven is the sum of the configuration that the Node is to say it runs: ""
// while it runs another, while an update in place is not finished, or while a
// static pod is not as its manifest says. What the Node says already is not
// doubted again.
func (s *session) proven() string {
	sum := s.status.Version
	switch {
	case sum == "" || s.node == nil || s.offer == nil || sum != s.offer.sum ||
		s.update.record.Version == sum:
		return ""
	case s.sound == sum, s.sound == "" && s.node.Annotations[appliedAnnotation] == s.offer.label:
		s.dropProof()
		return sum
	}

	if why := s.lacking(); why != "" {
		s.waits(why)
		return ""
	}

	s.dropProof()
	return sum
}

// lacking says which static pod of the configuration does not run, and watches
// the pods until it does. What else is among the kubelet's manifests proves
// nothing.
func (s *session) lacking() string {
	p := &s.proof
	if p.generation != s.status.Generation || p.err != nil {
		p.generation = s.status.Generation
		p.static, p.err = staticPods(s.Root.FS(), s.status.StaticPods)
	}

	switch {
	case p.err != nil:
		s.soon(s.Now().Add(retryStep)) // Who put it there may take it away.
		return p.err.Error()
	case len(p.static) == 0:
		return ""
	case p.stop == nil:
		var ctx context.Context
		ctx, p.stop = context.WithCancel(s.whole)
		observeAll(ctx, s, podsOf(s.api, s.node.Name), &core.Pod{}, func(pods []*core.Pod) {
			p.pods = pods
		})
	}

	return lacking(p.static, s.node.Name, p.pods)
}

func (s *session) dropProof() {
	if s.proof.stop != nil {
		s.proof.stop()
	}
	s.proof = proof{}
}
