package cluster

import (
	"context"
	"io/fs"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/hint"
)

// readinessAction is what to do before the Node reports its configuration.
type readinessAction string

const (
	readinessWait  readinessAction = "wait"  // There is nothing to report.
	readinessCheck readinessAction = "check" // Look at the static pods.
	readinessDone  readinessAction = "done"  // Report it.
)

// decideReadiness decides whether the Node may report the configuration that it
// runs as applied. It may not while it runs another one than the cluster has
// for it, or while its update in place is unfinished; updating is the digest of
// the configuration of that update, "" if none. A configuration that was
// reported once is not checked again.
func decideReadiness(w world, updating string) readinessAction {
	sum := w.status.Version
	switch {
	case sum == "" || w.node == nil || w.pending == nil || sum != w.pending.sum,
		updating == sum:
		return readinessWait
	case w.reported == sum,
		w.reported == "" && w.node.Annotations[appliedAnnotation] == w.pending.label:
		return readinessDone
	}
	return readinessCheck
}

// readinessController finds out whether the static pods of the configuration
// run. It watches the pods of the Node until they do. Other manifests in the
// kubelet's directory do not count.
type readinessController struct {
	root    fs.FS
	env     Env
	who     credentials.Credentials
	watcher *watcher
	updates *updates

	checks podChecks
}

// podChecks is the state of the check of one generation.
type podChecks struct {
	// generation is the generation that static was read from.
	generation string
	static     []staticPod
	err        error

	// pods are the pods of the Node. stop ends their watch, nil if none.
	pods []*core.Pod
	stop context.CancelFunc
}

func (c *readinessController) step(_ context.Context, w *world) (outcome, error) {
	w.ready = ""
	switch decideReadiness(*w, c.updates.record.Version) {
	case readinessWait:
		return outcome{}, nil
	case readinessCheck:
		if out := c.check(*w); out.blocked != "" {
			return out, nil
		}
	}

	if c.checks.stop != nil {
		c.checks.stop()
	}
	c.checks = podChecks{}
	w.ready = w.status.Version
	return outcome{}, nil
}

// check is blocked by the static pod that does not run, and watches the pods
// until all do.
func (c *readinessController) check(w world) outcome {
	p := &c.checks
	if p.generation != w.status.Generation || p.err != nil {
		p.generation = w.status.Generation
		p.static, p.err = staticPods(c.root, w.status.StaticPods)
	}

	switch {
	case p.err != nil:
		// The manifest may be corrected.
		return outcome{wake: w.now.Add(retryStep), blocked: p.err.Error()}
	case len(p.static) == 0:
		return outcome{}
	case p.stop == nil:
		if err := c.watch(w); err != nil {
			return outcome{wake: w.now.Add(retryStep), blocked: hint.Line(err)}
		}
	}

	return outcome{blocked: notReady(p.static, w.node.Name, p.pods)}
}

// watch watches the pods of the Node as its kubelet does. If that is refused, the
// next step begins again: the kubelet may have another certificate. It says
// nothing about the certificate of the agent.
func (c *readinessController) watch(w world) error {
	api, err := newKubeletAPI(c.env, w.config, c.who, w.node.Name)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(c.watcher.ctx)
	stop := func() {
		cancel()
		api.close()
	}
	c.checks.stop = stop

	watcher := *c.watcher
	watcher.result = func(key string, err error) {
		c.watcher.link.record(key, err, c.env.Now())
		if apierrors.IsUnauthorized(err) && ctx.Err() == nil {
			stop()
			c.checks.stop = nil
		}
	}
	watchAll(ctx, &watcher, podsOf(api.api, w.node.Name), &core.Pod{}, func(pods []*core.Pod) {
		c.checks.pods = pods
	})
	return nil
}
