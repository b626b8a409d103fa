package loop

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
)

// Loop is the agent's loop. Set its fields before [Loop.Run] and do not change
// them after.
type Loop struct {
	Engine Engine
	Units  Units
	// Jobs records what the Engine asks of systemd; nil for no record.
	Jobs *Jobs
	// Source is where the configuration comes from; nil if nowhere.
	Source  source.Source
	Decoder Decoder
	Host    Host
	// Root is the root directory beneath which Drift watches; Drift may be nil.
	Root  string
	Drift Drifts
	// Contents receives when something a document refers to has changed; nil if
	// nothing can.
	Contents <-chan []string
	// Cluster is nil on a node that is part of none.
	Cluster Cluster
	// Volumes receives the state of the data volume; nil if the node has none.
	Volumes <-chan *status.Volume
	// EtcdVolumes receives that of the volume of etcd; nil if the node has none.
	EtcdVolumes <-chan *status.Volume
	// Disks receives how worn the disks are; nil if nobody asks them.
	Disks <-chan []status.Disk
	// Network is how the node is reached; nil if unknown.
	Network Watched[status.Network]
	// Upgrades is nil on a node that cannot be upgraded.
	Upgrades Watched[status.Upgrade]
	// OwnCluster is nil on a node that makes none.
	OwnCluster Watched[status.OwnCluster]
	// Reset is the node's reset.
	Reset Resetter
	// Requests are what operators and the cluster ask for; nil if none.
	Requests Requests
	// Queries ask how the node stands; nil if none.
	Queries Queries
	// DebugShells are terminals to open a root shell on.
	DebugShells []string
	// Status is what is known from the start: image, machine, and the problems
	// of machine.yaml.
	Status status.Status
	// Steady is how long a unit must be well to count as well again. Limit is
	// how long a boot without a change waits for units that are starting.
	Steady, Limit time.Duration
	Log           *zap.Logger
}

// ErrDisconnected means that systemd no longer reports changes of units. The
// agent ends, to be started again.
var ErrDisconnected = errors.New("connection to systemd lost")

// Run runs the loop. It returns nil when ctx ends, after all it started has
// ended.
func (l *Loop) Run(ctx context.Context) error {
	var others sync.WaitGroup
	defer others.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	r := newRunner(l, &others)
	if err := r.listen(ctx, l); err != nil {
		return err
	}
	if err := l.Host.Ready(); err != nil {
		return err
	}
	r.run(ctx, []Effect{
		SetAlarm{Which: aliveAlarm, In: aliveInterval},
		ObserveStorage,
		ObserveLimits,
	})

	for ctx.Err() == nil {
		if step := Next(r.state); step.Kind != Wait {
			r.begin(ctx, step)
			continue
		}
		if err := r.wait(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}
