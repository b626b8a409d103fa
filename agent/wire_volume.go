package agent

import (
	"context"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/volume/manager"
)

// claimingEngine has the volume that a configuration claims before the configuration, so that the kubelet finds it.
type claimingEngine struct {
	Engine
	volume *manager.Manager
}

// Apply is of Engine. A node that is to have a volume, and never had one, is not set up: a person has to say which disk is meant.
func (e claimingEngine) Apply(ctx context.Context, r apply.Request) (generation.Manifest, error) {
	size, err := cluster.DataVolumeSize(r.Desired)
	if err == nil {
		err = e.volume.Request(ctx, size)
	}
	if err != nil {
		return generation.Manifest{}, err
	}
	return e.Engine.Apply(ctx, r)
}
