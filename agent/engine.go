package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/plane"
)

// jobWait is how long a stage of units may take before the agent goes on: a
// little more than systemd gives a service to start that says nothing else
// (systemd-system.conf(5), DefaultTimeoutStartSec=, 90 s). A change has proven itself when its units
// have been well for steady; limit is when that has to have begun.
const (
	jobWait = 100 * time.Second
	steady  = 10 * time.Second
	limit   = 3 * time.Minute
)

// openEngine opens the state of the node for what changes the node by it.
func (n *node) openEngine() (*apply.Executor, error) {
	dir := durable.New(n.root, nil)
	name := strings.TrimPrefix(generation.Dir, "/")
	for _, needed := range []string{name, "run/loam"} {
		if err := dir.MkdirAll(needed); err != nil {
			return nil, err
		}
	}

	id, err := n.BootID()
	if err != nil {
		return nil, err
	}

	state, err := n.root.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("open the state of the node: %w", err)
	}

	n.spare = durable.NewSpare(state, spareName, spareSize)
	return apply.Open(apply.Config{
		State:     durable.New(state, nil).WithSpare(n.spare),
		Node:      dir,
		Image:     n.image.FS(),
		Units:     n.jobs,
		OSVersion: n.status.ImageVersion,
		BootID:    id,
		JobWait:   jobWait,
		Steady:    steady,
		Limit:     limit,
		Probes:    probes(),
		Now:       n.Now,
		Uptime:    n.Uptime,
	}), nil
}

// records returns where the node records what it must know after a restart.
func (n *node) records() *durable.Dir { return durable.New(n.root, nil).WithSpare(n.spare) }

// planeStore returns where the node has its own cluster.
func (n *node) planeStore() plane.Store { return plane.NewStore(n.records()) }

// lock makes this process the only one that changes the node, until the file is
// closed.
func lock(state *os.Root) (*os.File, error) {
	f, err := durable.TryLock(state, "lock")
	switch {
	case errors.Is(err, durable.ErrLocked):
		return nil, fmt.Errorf("lock the state of the node: another agent has it: %w", err)
	case err != nil:
		return nil, fmt.Errorf("lock the state of the node: %w", err)
	}
	return f, nil
}

// dataVolume makes the data volume of a node; see manager.Manager.
type dataVolume interface {
	Request(ctx context.Context, size int64) error
}

// claimingEngine makes the data volume that a configuration asks for before it
// applies the configuration, so that the kubelet finds the volume.
type claimingEngine struct {
	Engine
	volume dataVolume
	// before is called before each change.
	before func()
}

// Apply implements [Engine]. A node whose volume cannot be made is not
// configured: an operator has to say which disk to use.
func (e claimingEngine) Apply(ctx context.Context, r apply.Request) (generation.Manifest, error) {
	size, err := cluster.DataVolumeSize(r.Desired)
	if err == nil {
		err = e.volume.Request(ctx, size)
	}
	if err != nil {
		return generation.Manifest{}, err
	}

	e.before()
	return e.Engine.Apply(ctx, r)
}
