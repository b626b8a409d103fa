package local

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
)

// AtInit is [document.At] for an error about a field of a record that is made from
// cluster.init of machine.yaml.
func AtInit(err error) error {
	field := document.PathOf(err)
	if field == "" {
		return err
	}
	return document.At("cluster.init."+field, err)
}

// notMade is the problem of a cluster before it begins.
const notMade = "it is not made yet"

// beginning makes the cluster of a node, once.
type beginning struct {
	store plane.Store

	// fsyncP99 is FsyncP99 of [Config].
	fsyncP99 time.Duration

	addresses    addresses
	bundles      *bundles
	certificates certificates
	state        *clusterState
	log          *zap.Logger

	// done is closed when the node has its cluster.
	done chan struct{}
}

// isDone reports whether the node has a cluster.
func (b *beginning) isDone() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// begin makes the cluster of a record when all is there that it needs. Until then
// the node has neither its keys nor its record, so another machine.yaml counts.
func (b *beginning) begin(ctx context.Context, r plane.Record) error {
	if err := b.check(ctx, r); err != nil {
		return err
	}

	// Until the record is there, the next start measures again.
	if err := b.store.WriteFsyncP99(b.fsyncP99); err != nil {
		return err
	}
	made, err := b.store.Init(r, b.certificates.times())
	if err != nil {
		return err
	}
	b.log.Info("made the cluster", zap.String("cluster", made.Name))
	b.state.report(func(s *status.OwnCluster) { s.Problem = "" })
	close(b.done)
	return nil
}

// check returns why the node cannot make the cluster of a record yet.
func (b *beginning) check(ctx context.Context, r plane.Record) error {
	if err := b.addresses.checkSite(r); err != nil {
		return err
	}
	if err := b.bundles.require(ctx, r, r.Kubernetes); err != nil {
		return atVersion(fmt.Errorf("cluster %s: %w", r.Name, err))
	}
	if _, err := b.bundles.open(r); err != nil {
		return atVersion(err)
	}
	_, err := b.addresses.choose(r)
	return err
}

// atVersion says that the version of Kubernetes is the cause if there is no bundle of
// it for this node.
func atVersion(err error) error {
	switch fault.Of(err) {
	case fault.NoSuchRelease, fault.WrongArchitecture, fault.CannotBeApplied:
		return document.At("kubernetes", err)
	}
	return err
}
