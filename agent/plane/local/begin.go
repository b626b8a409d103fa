package local

import (
	"context"
	"fmt"

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

// Begun is closed when the node has a cluster.
func (n *Node) Begun() <-chan struct{} { return n.begun }

// hasBegun reports whether the node has a cluster.
func (n *Node) hasBegun() bool {
	select {
	case <-n.begun:
		return true
	default:
		return false
	}
}

// begin makes the cluster of a record when all is there that it needs. Until then
// the node has neither its keys nor its record, so another machine.yaml counts.
func (n *Node) begin(ctx context.Context, r plane.Record) error {
	if err := n.addresses.checkSite(r); err != nil {
		return err
	}
	if err := n.bundles.require(ctx, r, r.Kubernetes); err != nil {
		return atVersion(fmt.Errorf("cluster %s: %w", r.Name, err))
	}
	if _, err := n.bundles.open(r); err != nil {
		return atVersion(err)
	}
	if _, err := n.addresses.choose(r); err != nil {
		return err
	}

	// Until the record is there, the next start measures again.
	if err := n.Store.WriteFsyncP99(n.FsyncP99); err != nil {
		return err
	}
	made, err := n.Store.Init(r, n.certificates.times())
	if err != nil {
		return err
	}
	n.Log.Info("made the cluster", zap.String("cluster", made.Name))
	n.state.report(func(s *status.OwnCluster) { s.Problem = "" })
	close(n.begun)
	return nil
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
