package local

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/plane"
)

// steps makes a node follow its record one step after the other: etcd comes before the
// other programs if there is no way back from it. What has proved itself is recorded.
type steps struct {
	store plane.Store
	root  string

	// current and prune are Current and Prune of [Config].
	current func() (digest string, trying bool, err error)
	prune   func(oldest string) error

	addresses addresses
	bundles   *bundles
	renderer  renderer
	log       *zap.Logger
}

// engineState is what the engine runs: the digest of a configuration, "" if none, and
// whether it is on trial.
type engineState struct {
	digest string
	trying bool
}

func (e engineState) runs(d config.Desired) bool { return d.Digest() == e.digest }

func (e engineState) hasProved(d config.Desired) bool { return e.runs(d) && !e.trying }

func (s steps) observe() (engineState, error) {
	digest, trying, err := s.current()
	return engineState{digest, trying}, err
}

// next returns the configuration of a record, or the one that comes before it.
func (s steps) next(ctx context.Context, r plane.Record) (config.Desired, error) {
	engine, err := s.observe()
	if err != nil {
		return config.Desired{}, err
	}

	first, due, err := s.first(ctx, r, engine)
	if err != nil || due {
		return first, err
	}
	desired, err := s.renderer.issue(all(r))
	if err != nil || !engine.hasProved(desired) {
		return desired, err
	}

	if err := errors.Join(s.recordApplied(r), s.store.KeepProven()); err != nil {
		s.log.Warn("keep which record the node runs; the next look tries again", zap.Error(err))
	}
	return desired, nil
}

// first returns the configuration that comes before the one of r, and whether it is
// due: if etcd of r is of the next minor version, the one that the node runs, with this
// etcd, until that has proved itself. What the engine runs counts more than what etcd
// has kept of its start, for a disk may have been full then.
func (s steps) first(
	ctx context.Context, r plane.Record, engine engineState,
) (step config.Desired, due bool, err error) {
	if desired, err := s.renderer.preview(all(r)); err == nil && engine.runs(desired) {
		return config.Desired{}, false, nil
	}
	before, comesFirst, err := etcdFirst(ctx, s.store, s.root, r, engine.trying)
	if err != nil || !comesFirst {
		return config.Desired{}, false, err
	}
	if err := s.bundles.require(ctx, r, before.Kubernetes); err != nil {
		return config.Desired{}, false, fmt.Errorf("cluster %s: etcd of Kubernetes %s comes first, "+
			"beside the programs that run: %w", r.Name, r.Kubernetes, err)
	}

	step, err = s.renderer.issue(parts{settings: before, images: before, etcd: r})
	if err != nil || engine.hasProved(step) {
		return config.Desired{}, false, err
	}
	if !engine.runs(step) {
		s.log.Info("etcd alone is changed first",
			zap.String("kubernetes", before.Kubernetes), zap.String("next", r.Kubernetes))
	}
	return step, true, nil
}

// keepUp returns the configuration of the record that runs while the node cannot have
// r, nil if that cannot be read, and whether it has changed: with another address, or with
// certificates that were due. In the middle of an upgrade it never has.
func (s steps) keepUp(r *plane.Record) (desired config.Desired, changed bool, err error) {
	applied, err := s.store.Applied()
	if err != nil || applied == nil {
		return config.Desired{}, false, err
	}
	engine, err := s.observe()
	if err != nil || engine.trying || engine.digest == "" {
		return config.Desired{}, false, err
	}
	running := *applied
	if r != nil {
		running = withKeysOf(*r, running)
	}
	if !running.IsKnown() {
		return config.Desired{}, false, s.renderer.certificates.renew(running)
	}
	started, err := s.store.Started()
	if err != nil || started == nil || !started.Ran(*applied, programsDir(*applied)) {
		return config.Desired{}, false, err
	}

	if err := s.addresses.record(*applied); err != nil {
		return config.Desired{}, false, err
	}
	desired, err = s.renderer.issue(all(running))
	return desired, err == nil && !engine.runs(desired), err
}

// recordApplied records that the node runs what a record says, and that it is not on
// trial. The programs of the record before stay, to go back to by hand; earlier ones
// go.
func (s steps) recordApplied(r plane.Record) error {
	before, err := s.store.Applied()
	if err != nil || (before != nil && string(before.Text()) == string(r.Text())) {
		return err
	}
	if err := s.store.WriteApplied(r); err != nil {
		return err
	}

	if before != nil && s.prune != nil {
		if err := s.prune(plane.Earlier(before.Kubernetes, r.Kubernetes)); err != nil {
			s.log.Warn("remove earlier programs of Kubernetes", zap.Error(err))
		}
	}
	return nil
}

// withKeysOf returns the record before with what r says of keys and certificates. They
// are no part of a configuration, and the agent has applied those of r when it started.
func withKeysOf(r, before plane.Record) plane.Record {
	before.Encrypt, before.CertificateNames = r.Encrypt, r.CertificateNames
	return before
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
	if err != nil || (applied != nil && string(applied.Text()) == string(r.Text())) {
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
