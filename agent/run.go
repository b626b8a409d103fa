package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/drift"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/metrics"
	"github.com/loam-os/loam/agent/osimage"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/volume/manager"
)

// Run is the agent on a node, until ctx ends.
func Run(ctx context.Context, env Env) error {
	root, err := os.OpenRoot(env.Root)
	if err != nil {
		return fmt.Errorf("open the root directory: %w", err)
	}
	defer root.Close()

	imageRoot, err := osimage.Open(env.Root)
	if err != nil {
		return err
	}
	defer imageRoot.Close()

	systemd, err := unit.Connect(ctx, env.Socket)
	if err != nil {
		return err
	}
	defer systemd.Close()

	facts, record, err := osimage.Observe(root)
	if err != nil {
		return err
	}

	n := &node{
		Env:      env,
		root:     root,
		image:    imageRoot,
		systemd:  systemd,
		status:   facts,
		record:   record,
		jobs:     &loop.Jobs{Units: systemd, Changed: make(chan struct{}, 1)},
		requests: make(loop.Requests),
		queries:  make(loop.Queries),
		data:     manager.New(manager.NewNode(root, env.Root, systemd), env.Log),
	}
	return n.own(ctx)
}

// own takes the lock, so that no other agent changes the node, and then runs.
func (n *node) own(ctx context.Context) (err error) {
	n.engine, err = n.openEngine()
	if err != nil {
		return err
	}
	defer n.engine.State.Root().Close()

	locked, err := lock(n.engine.State.Root())
	if err != nil {
		return err
	}
	defer locked.Close()

	n.managed, err = drift.New()
	if err != nil {
		return err
	}
	defer n.managed.Close()

	n.contents, err = drift.New()
	if err != nil {
		return err
	}
	defer n.contents.Close()
	return n.live(ctx)
}

// live is the life of the node under one name and one machine.yaml. The error
// is why it starts again.
func (n *node) live(ctx context.Context) error {
	n.reset = n.newReset()
	n.identify(ctx)
	n.status.Reset = n.reset.Status()
	if err := n.data.Start(ctx, n.Uptime(), unit.Ready); err != nil {
		n.warn(err)
	}

	n.remember()
	life, end := context.WithCancelCause(ctx)
	defer n.others.Wait()
	defer end(nil)

	if err := n.startUpgrades(life); err != nil {
		if n.record.Trial {
			return err // Only upgrades judge a trial. The next start may do better.
		}
		n.warn(err)
	}

	op := operator{Requests: n.requests, reset: n.reset, upgrades: n.upgrades}
	n.startOthers(life, end, op)
	err := serve(life, n.agent(end), filepath.Join(n.Root, control.Socket), op)
	if cause := context.Cause(life); cause != nil && ctx.Err() == nil {
		return cause
	}

	return err
}

// startOthers starts what goes on beside the loop until ctx ends.
func (n *node) startOthers(ctx context.Context, end context.CancelCauseFunc, op operator) {
	n.others.Go(func() { n.watchHostname(ctx, end) })
	n.others.Go(func() { n.data.Watch(ctx, end) })
	n.others.Go(func() { n.watchDrives(ctx, end) })
	n.others.Go(func() { n.network.Run(ctx, n.Root, n.Log) })
	if n.nameless {
		n.others.Go(func() { n.awaitName(ctx) })
	}
	if n.cluster != nil {
		n.others.Go(func() { n.cluster.Run(ctx) })
	}

	n.others.Go(func() { n.watchLiveness(ctx) })
	n.others.Go(func() { n.serveHTTP(ctx, n.Metrics, metrics.Handler(n.queries.Take)) })
	n.others.Go(func() { n.serveHTTP(ctx, n.Health, metrics.Health(n.queries.Take)) })
	if op.resetUnfinished() {
		n.others.Go(func() { op.goOn(ctx, n.Log) })
	}
}
