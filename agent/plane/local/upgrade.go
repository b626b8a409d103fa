package local

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/plane"
)

// Proven has the source read again: a change is no longer on trial, so that the next
// step of an upgrade may follow.
func (n *Node) Proven() { notify(n.again) }

// next returns the configuration of a record. If its etcd is of the next minor
// version, it first returns the one that the node runs, with this etcd. What the
// engine runs counts more than what etcd has kept of its start, for a disk may have
// been full then.
func (n *Node) next(ctx context.Context, r plane.Record) (config.Desired, error) {
	digest, trying, err := n.Current()
	if err != nil {
		return config.Desired{}, err
	}

	if whole, err := n.renderer.preview(all(r)); err != nil || whole.Digest() != digest {
		before, first, err := etcdFirst(ctx, n.Store, n.Root, r, trying)
		if err != nil {
			return config.Desired{}, err
		}
		if first {
			step, err := n.firstStep(ctx, before, r)
			if err != nil {
				return config.Desired{}, err
			}
			if step.Digest() != digest {
				n.Log.Info("etcd alone is changed first",
					zap.String("kubernetes", before.Kubernetes), zap.String("next", r.Kubernetes))
				return step, nil
			}
			if trying {
				return step, nil
			}
		}
	}

	desired, err := n.renderer.issue(all(r))
	if err != nil || trying || desired.Digest() != digest {
		return desired, err
	}
	if err := n.keepApplied(r); err != nil {
		n.Log.Warn("keep which record the node runs; the next look tries again", zap.Error(err))
	}
	return desired, nil
}

// keepUp returns the configuration of the record that runs while the node cannot have
// r, and whether it has changed: with another address, or with certificates that were
// due. In the middle of an upgrade it never has.
func (n *Node) keepUp(ctx context.Context, r plane.Record) (config.Desired, bool, error) {
	applied, err := n.Store.Applied()
	if err != nil || applied == nil {
		return config.Desired{}, false, err
	}
	digest, trying, err := n.Current()
	if err != nil || trying || digest == "" {
		return config.Desired{}, false, err
	}
	started, err := n.Store.Started()
	if err != nil || started == nil || !started.Ran(*applied, programsDir(*applied)) {
		return config.Desired{}, false, err
	}

	if err := n.addresses.record(*applied); err != nil {
		return config.Desired{}, false, err
	}
	desired, err := n.renderer.issue(all(withKeysOf(r, *applied)))
	return desired, err == nil && desired.Digest() != digest, err
}

// withKeysOf returns the record before with what r says of keys and certificates. They
// are no part of a configuration, and the agent has applied those of r when it started.
func withKeysOf(r, before plane.Record) plane.Record {
	before.Encrypt, before.CertificateNames = r.Encrypt, r.CertificateNames
	return before
}

// firstStep returns the configuration of the record before, with etcd of r.
func (n *Node) firstStep(ctx context.Context, before, r plane.Record) (config.Desired, error) {
	if err := n.bundles.require(ctx, r, before.Kubernetes); err != nil {
		return config.Desired{}, fmt.Errorf("cluster %s: etcd of Kubernetes %s comes first, beside "+
			"the programs that run: %w", r.Name, r.Kubernetes, err)
	}

	return n.renderer.issue(parts{settings: before, images: before, etcd: r})
}

// keepApplied records that the node runs what a record says, and that it is not on
// trial. The programs of the record before stay, to go back to by hand; earlier ones
// go.
func (n *Node) keepApplied(r plane.Record) error {
	before, err := n.Store.Applied()
	if err != nil || before != nil && string(before.Text()) == string(r.Text()) {
		return err
	}
	if err := n.Store.WriteApplied(r); err != nil {
		return err
	}

	if before != nil && n.Prune != nil {
		if err := n.Prune(plane.Earlier(before.Kubernetes, r.Kubernetes)); err != nil {
			n.Log.Warn("remove earlier programs of Kubernetes", zap.Error(err))
		}
	}
	return nil
}

// etcdFirst reports whether etcd of a record comes before its other programs, and
// returns the record that these still follow. onTrial is whether a change is on
// trial that is not all of the record. A node that has run all of it never goes back.
func etcdFirst(
	ctx context.Context, store plane.Store, root string, r plane.Record, onTrial bool,
) (before plane.Record, first bool, err error) {
	started, err := lastStarted(ctx, store, root)
	if err != nil || started == nil || started.Kubernetes == r.Kubernetes {
		return r, false, err
	}
	before = r
	before.Kubernetes = started.Kubernetes
	applied, err := store.Applied()
	if err != nil || applied != nil && string(applied.Text()) == string(r.Text()) {
		return r, false, err
	}
	if applied != nil && applied.Kubernetes == started.Kubernetes {
		before = withKeysOf(r, *applied)
	}

	next, err := etcdVersion(ctx, root, r)
	if err != nil || next == "" {
		return r, false, err
	}
	bundled, err := etcdVersion(ctx, root, before)
	if err != nil {
		return r, false, err
	}
	return before, plane.EtcdFirst(*started, bundled, next, onTrial), nil
}

// lastStarted returns what last served from the data of etcd, nil if that is not known. If
// the file with it is lost, it is what the node last ran without a trial.
func lastStarted(ctx context.Context, store plane.Store, root string) (*plane.Started, error) {
	kept, err := store.Started()
	if err != nil || kept != nil {
		return kept, err
	}
	applied, err := store.Applied()
	if err != nil || applied == nil {
		return nil, err
	}

	version, err := etcdVersion(ctx, root, *applied)
	if err != nil || version == "" {
		return nil, err
	}
	return &plane.Started{
		Kubernetes: applied.Kubernetes,
		Etcd:       version,
		Programs:   programsDir(*applied),
	}, nil
}

// EtcdFirst reports whether etcd of a record comes before its other programs, on the
// node with that store and root directory.
func EtcdFirst(
	ctx context.Context, store plane.Store, root string, r plane.Record,
) (bool, error) {
	_, first, err := etcdFirst(ctx, store, root, r, false)
	return first, err
}

// checkPrograms returns an error while etcd of a record comes before its other
// programs.
func checkPrograms(
	ctx context.Context, store plane.Store, root string, r plane.Record,
) error {
	before, first, err := etcdFirst(ctx, store, root, r, true)
	if err != nil || !first {
		return err
	}
	return fmt.Errorf("cluster %s: this node runs the programs of Kubernetes %s: those of %s "+
		"follow once its etcd has proved itself", r.Name, before.Kubernetes, r.Kubernetes)
}
