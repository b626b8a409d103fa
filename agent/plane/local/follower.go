// Package local makes a node follow the cluster record on its state partition.
//
//	record.json ---Read---> source.Document ---Decode---> config.Desired
//	                                             ^
//	addresses, bundle, keys, image's containerd -+
//
// [Follower] is a source of configuration like any other, and its own decoder, so
// that the engine applies, judges and reverts what the record asks for. A node
// that is to make a cluster has the record of machine.yaml, and writes it once the
// node has an address and the programs. What it adds to [plane.Render] is what
// needs the node: the container runtime, the images of the bundle and the network
// of pods.
//
// Follower puts these parts together, each of which has only the data that it uses:
//
//   - beginning makes the cluster, once.
//   - bundles fetches the programs and opens them.
//   - addresses chooses the address that the cluster uses, and records it.
//   - certificates issues what is due.
//   - renderer makes the configuration of records.
//   - steps decides whether etcd comes first, and records what has proved itself.
//   - cluster is [Follower.Run]: the ConfigMap with the record (agreement), the add-ons
//     (addOns) and the label of the Node.
package local

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint"
)

// Follower makes the node that it runs on follow the record of its cluster. [New]
// makes it.
type Follower struct {
	// record is what [New] was given, which beginning makes a cluster of.
	record    plane.Record
	beginning *beginning

	// store and root are Store and Root of [Config].
	store plane.Store
	root  string

	addresses    addresses
	bundles      *bundles
	certificates certificates
	renderer     renderer
	steps        steps
	cluster      *cluster
	state        *clusterState
	log          *zap.Logger

	// networkChanges is NetworkChanges of [Config], and again has the source read again.
	networkChanges func(ctx context.Context) (<-chan struct{}, error)
	again          chan struct{}

	// notKept is why what runs is not kept up to date, as it was logged last. Only
	// Decode uses it.
	notKept logged
}

// New returns the follower of a configuration, whose cluster has the record r.
func New(r plane.Record, c Config) *Follower {
	var problem string
	if c.First {
		problem = notMade
	}
	f := &Follower{
		record:         r,
		store:          c.Store,
		root:           c.Root,
		state:          newState(r, problem),
		log:            c.Log,
		networkChanges: c.NetworkChanges,
		again:          make(chan struct{}, 1),
	}

	f.addresses = addresses{store: c.Store, present: c.Addresses, uptime: c.Uptime}
	f.bundles = &bundles{
		root:    c.Root,
		fetch:   c.Fetch,
		spawn:   c.Go,
		uptime:  c.Uptime,
		log:     c.Log,
		ended:   f.again,
		changed: f.state.changed,
		last:    &download{},
	}
	f.certificates = certificates{
		store: c.Store,
		node:  c.Name,
		built: c.Built,
		now:   c.Now,
		log:   c.Log,
	}
	f.renderer = renderer{
		store:        c.Store,
		node:         c.Name,
		addresses:    f.addresses,
		bundles:      f.bundles,
		certificates: f.certificates,
		containerd:   &containerd{image: c.Image},
	}

	f.beginning = &beginning{
		store:        c.Store,
		fsyncP99:     c.FsyncP99,
		addresses:    f.addresses,
		bundles:      f.bundles,
		certificates: f.certificates,
		state:        f.state,
		log:          c.Log,
		done:         make(chan struct{}),
	}
	if !c.First {
		close(f.beginning.done)
	}
	f.steps = steps{
		store:     c.Store,
		root:      c.Root,
		current:   c.Current,
		prune:     c.Prune,
		addresses: f.addresses,
		bundles:   f.bundles,
		renderer:  f.renderer,
		log:       c.Log,
	}
	f.cluster = &cluster{
		node:      c.Name,
		connect:   c.API,
		agreement: &agreement{store: c.Store, root: c.Root, log: c.Log},
		addOns: addOns{
			store:   c.Store,
			root:    c.Root,
			bundles: f.bundles,
			uptime:  c.Uptime,
			log:     c.Log,
		},
		state: f.state,
		log:   c.Log,
	}
	return f
}

// Read implements [source.Source]. The record of a cluster that does not exist yet
// is no file.
func (f *Follower) Read(ctx context.Context) (source.Document, error) {
	if !f.beginning.isDone() {
		return source.Document{Name: plane.RecordFile, Text: f.record.Text()}, nil
	}

	doc, err := source.File{Path: filepath.Join(f.root, plane.RecordFile)}.Read(ctx)
	doc.Name = plane.RecordFile
	return doc, err
}

// Watch implements [source.Source]: the record may change, and the addresses of
// the node, a change is no longer on trial, a bundle is there, and certificates become
// due as time goes by.
func (f *Follower) Watch(ctx context.Context) (<-chan struct{}, error) {
	record, err := source.File{Path: filepath.Join(f.root, plane.RecordFile)}.Watch(ctx)
	if err != nil {
		return nil, err
	}
	network, err := f.networkChanges(ctx)
	if err != nil {
		return nil, err
	}

	changes := make(chan struct{}, 1)
	go func() {
		defer close(changes)
		merge(changes, record, network, f.again)
	}()
	return changes, nil
}

// Decode returns the configuration of the node for its record. It makes the cluster
// if there is none yet, and issues the certificates that are due. What the record
// needs is fetched beside the loop until ctx ends, the context of the agent:
// meanwhile the error is [source.ErrFetching], and the source is read again when a
// fetch has ended. While the node cannot have the record, what it runs follows its
// addresses and certificates. One goroutine calls it.
func (f *Follower) Decode(ctx context.Context, doc source.Document) (config.Desired, error) {
	r, err := plane.DecodeKept(doc.Name, doc.Text)
	if err != nil {
		return f.keepUp(nil, err)
	}
	f.bundles.endUnlessFor(r.Kubernetes)

	desired, err := f.reconcile(ctx, doc, r)
	if err == nil || ctx.Err() != nil {
		return desired, err
	}
	return f.keepUp(&r, err)
}

// keepUp returns what the node runs, if it has changed, in place of a record that the node
// cannot have, and otherwise why it cannot. r is nil if the record cannot be read.
func (f *Follower) keepUp(r *plane.Record, why error) (config.Desired, error) {
	kept, changed, err := f.steps.keepUp(r)
	f.logKeepUp(err)
	if changed {
		f.log.Warn("the cluster is not as its record says yet", zap.String("error", hint.Line(why)))
		return kept, nil
	}
	return config.Desired{}, why
}

// logKeepUp logs once why what runs is not kept up to date, nil if it is. A fetch has
// its own lines in the log.
func (f *Follower) logKeepUp(err error) {
	var problem string
	if err != nil && !errors.Is(err, source.ErrFetching) {
		problem = hint.Line(err)
	}
	if f.notKept.isNews(problem) {
		f.log.Warn("what runs is not kept up to date", zap.String("error", problem))
	}
}

// reconcile is Decode of a record that can be read.
func (f *Follower) reconcile(
	ctx context.Context, doc source.Document, r plane.Record,
) (config.Desired, error) {
	if !f.beginning.isDone() {
		if err := f.beginning.begin(ctx, r); err != nil {
			return config.Desired{}, AtInit(err)
		}
	}

	if err := checkChange(f.store, doc.Name, doc.Text, r); err != nil {
		return config.Desired{}, err
	}
	if err := f.bundles.require(ctx, r, r.Kubernetes); err != nil {
		return config.Desired{}, fmt.Errorf("cluster %s: %w", r.Name, err)
	}
	if err := checkEtcd(ctx, f.store, f.root, doc.Name, doc.Text, r); err != nil {
		return config.Desired{}, err
	}
	if err := f.addresses.record(r); err != nil {
		return config.Desired{}, err
	}

	return f.steps.next(ctx, r)
}

// Preview returns the configuration of the node for a record that it may get. It
// writes nothing. A bundle that the node does not have counts as one with the
// images of the record that New was given.
func (f *Follower) Preview(r plane.Record) (config.Desired, error) {
	p := all(r)
	if !HasBundle(f.root, r) && HasBundle(f.root, f.record) {
		p.images = f.record
	}
	return f.renderer.preview(p)
}

// Renew issues the certificates that are due. It must be called before the
// programs start.
func (f *Follower) Renew(r plane.Record) error { return f.certificates.renew(r) }

// Begun is closed when the node has a cluster.
func (f *Follower) Begun() <-chan struct{} { return f.beginning.done }

// Proven has the source read again: a change is no longer on trial, so that the next
// step of an upgrade may follow.
func (f *Follower) Proven() { notify(f.again) }

// Run keeps the cluster as the record says, until ctx ends: the ConfigMap with the
// record, and the objects of the add-ons. It follows changes of both. It waits
// until the node has a cluster.
func (f *Follower) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-f.beginning.done:
	}

	changes, err := source.File{Path: filepath.Join(f.root, plane.RecordFile)}.Watch(ctx)
	if err != nil {
		f.log.Error("watch the cluster record", zap.Error(err))
		return
	}
	f.cluster.run(ctx, changes)
}

// State returns how the cluster is.
func (f *Follower) State() *status.OwnCluster {
	state := f.state.current.Load()
	if progress := f.bundles.progress(); progress != "" {
		fetching := *state
		fetching.Ready = false
		fetching.Problem = progress
		return &fetching
	}
	return state
}

// Changed receives a value when State may return a different one.
func (f *Follower) Changed() <-chan struct{} { return f.state.changed }
