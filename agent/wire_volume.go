package agent

import (
	"context"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/generation"
)

// dataVolume makes the data volume of a node; see manager.Manager.
type dataVolume interface {
	Request(ctx context.Context, size int64) error
}

// claimingEngine makes the data volume that a configuration asks for before it
// applies the configuration, so that the kubelet finds the volume.
type claimingEngine struct {
	Engine
	volume dataVolume
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
	return e.Engine.Apply(ctx, r)
}
