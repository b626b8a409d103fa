package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"runtime"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/networkd/watch"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/api"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/agent/plane/etcd"
	"github.com/loam-os/loam/agent/plane/etcd/disk"
	"github.com/loam-os/loam/agent/plane/etcd/room"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// stateFileSystem is a directory of the file system that etcd's data are on without a
// volume of their own.
const stateFileSystem = "var/lib"

// recordDecoder decodes the cluster record of a node, and all other documents as
// the Decoder does.
type recordDecoder struct {
	loop.Decoder
	node *local.Node
}

// Decode implements [loop.Decoder].
func (d recordDecoder) Decode(ctx context.Context, doc source.Document) (config.Desired, error) {
	if doc.Name == plane.RecordFile {
		return d.node.Decode(ctx, doc)
	}
	return d.Decoder.Decode(ctx, doc)
}

// initCluster has the node become the first of the cluster of machine.yaml, unless
// it is already. A disk that is too slow for etcd is refused before that. The claims of
// all volumes must be recorded except that of etcd.
func (n *node) initCluster(ctx context.Context) {
	if err := n.claimEtcdVolume(ctx); err != nil {
		n.status.Error = loop.Describe(document.At(volume.Etcd.Field, err))
		return
	}
	settings := n.machine.Cluster.Init
	if settings == nil {
		return
	}

	r := plane.NewRecord(*settings)
	found, err := n.planeStore().CheckInit(r)
	err = local.AtInit(err)
	if err == nil && !found {
		n.fsyncP99, err = n.admitDisk(ctx)
	}
	if err == nil && !found {
		// The volume that is mounted now may have the data of another cluster.
		_, err = n.planeStore().CheckInit(r)
		err = local.AtInit(err)
	}
	switch {
	case errors.Is(err, errNoVolume): // It is reported by itself.
	case err != nil:
		n.status.Error = loop.Describe(err)
	case !found:
		n.first = &r
	}
}

// claimEtcdVolume records the claim of machine.yaml to a volume for etcd. A cluster that
// has its data elsewhere would lose them.
func (n *node) claimEtcdVolume(ctx context.Context) error {
	claim := n.machine.Cluster.EtcdVolume
	if claim == (machine.Volume{}) {
		return n.etcdData.Configure(ctx, claim, 0)
	}

	kept, claimed, err := volume.Etcd.ReadRecord(n.root.FS())
	if err != nil {
		return err
	}
	r, found, err := n.planeStore().Record()
	if err != nil {
		return err
	}
	switch {
	case !found && claimed && kept.Claim != claim.Claim():
		// After a reset, another disk may take the place of the one before.
		kept.Made = false
		if err := volume.Etcd.WriteRecord(n.etcdData.Dir, kept); err != nil {
			return err
		}
	case found && !kept.Made:
		return hint.With(
			fault.With(
				fmt.Errorf("cluster %s has the data of etcd on the state partition", r.Name),
				fault.CannotBeApplied,
			),
			"leave etcdVolume out, or reset the node: its cluster is lost then",
		)
	}
	return n.etcdData.Configure(ctx, claim, 0)
}

// errNoVolume says that the volume for etcd has a problem.
var errNoVolume = errors.New("no volume for etcd")

// etcdDirectory returns a directory of the file system that the data of etcd will be on.
// If a volume is claimed for them, it makes and mounts that, and the error is errNoVolume
// if it has a problem.
func (n *node) etcdDirectory(ctx context.Context) (string, error) {
	_, claimed, err := volume.Etcd.ReadRecord(n.root.FS())
	if err != nil || !claimed {
		return stateFileSystem, err
	}

	if err := n.etcdData.Start(ctx, n.Uptime(), unit.Ready); err != nil {
		return "", err
	}
	state, err := n.etcdData.Mounted()
	if err == nil && state.Device == "" {
		err = errNoVolume
	}
	return volume.Etcd.Mountpoint, err
}

// admitDisk returns the 99th percentile of the time of a sync of the disk for etcd, or
// why it cannot have the data of etcd.
func (n *node) admitDisk(ctx context.Context) (time.Duration, error) {
	directory, err := n.etcdDirectory(ctx)
	if err != nil {
		return 0, err
	}
	p99, err := disk.Admit(ctx, n.Fsync, filepath.Join(n.Root, directory))
	if err == nil {
		n.Log.Info("the disk is fast enough for etcd",
			zap.Duration("fsyncP99", p99), zap.Duration("limit", disk.SlowFsync),
			zap.Stringer("timing", disk.TimingOf(p99)))
		return p99, nil
	}

	allowed := n.machine.Cluster.AllowSlowDisk
	n.Log.Warn("the disk for etcd", zap.Error(err), zap.Bool("allowed", allowed))
	if allowed {
		n.warn(errors.New(err.Error())) // The hint is what machine.yaml has done.
		return p99, nil
	}
	return 0, err
}

// maintainEtcd keeps etcd able to write until ctx ends.
func (n *node) maintainEtcd(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-n.controlPlane.Begun():
	}

	keeper := room.Keeper{
		Dir:    filepath.Join(n.Root, plane.EtcdDirectory),
		Report: n.logEtcdRoom,
	}
	n.others.Go(func() { keeper.Run(ctx) })
	maintenance := etcd.Maintenance{
		Connect: func() (etcd.Client, error) { return local.EtcdClient(n.planeStore()) },
		Now:     n.Now,
		Report:  n.logEtcd,
	}
	maintenance.Run(ctx)
}

func (n *node) logEtcdRoom(e room.Event) {
	switch {
	case e.Err != nil:
		n.Log.Warn("room for etcd on the disk", zap.Error(e.Err))
	case e.All:
		n.Log.Info("etcd has its room on the disk again")
	default:
		n.Log.Warn("the disk is too full to reserve room for etcd, which ends when it is full: free some")
	}
}

func (n *node) logEtcd(e etcd.Event) {
	fields := []zap.Field{zap.String("condition", string(e.Condition))}
	if e.Condition != etcd.Away {
		fields = append(fields, zap.Stringer("state", e.State))
	}
	if e.Step.Action != etcd.Nothing {
		fields = append(fields,
			zap.String("action", string(e.Step.Action)), zap.String("reason", e.Step.Reason))
	}

	if e.Err != nil {
		n.Log.Warn("etcd", append(fields, zap.String("problem", hint.Line(e.Err)))...)
		return
	}
	n.Log.Info("etcd", fields...)
}

func (n *node) planeStore() plane.Store {
	return plane.NewStore(n.records())
}

// refuseSource drops the source of machine.yaml from a node that has a cluster
// record: the node goes on with that.
func (n *node) refuseSource() {
	r, found, err := n.planeStore().Record()
	if err != nil || !found || n.machine.Source == (machine.Source{}) {
		return // The source reports the error.
	}

	n.machine.Source = machine.Source{}
	n.status.Error = loop.Describe(hint.With(
		fault.With(
			fmt.Errorf("source of machine.yaml: this node is the first of cluster %s", r.Name),
			fault.CannotBeApplied,
		),
		"leave source out, or reset the node: its cluster is lost then",
	))
}

// obeyRecord makes the cluster record of the node its source, also when
// machine.yaml is gone, or the record of the cluster that it is to make. A node whose
// record is damaged goes on with the one that it last ran. Certificates that are due
// are issued here, before systemd starts the programs that read them.
func (n *node) obeyRecord() {
	r, made, err := local.FindRecord(n.planeStore(), n.first)
	if err != nil {
		n.status.Error = loop.Describe(err)
		return
	}
	if r == nil {
		return
	}

	built, err := n.Built()
	if err != nil {
		n.status.Error = loop.Describe(err)
		return
	}
	config := n.planeConfig(built)
	config.First = !made
	n.controlPlane = local.New(*r, config)
	if made {
		if err := n.controlPlane.Renew(*r); err != nil {
			n.warn(err)
		}
	}
	n.source = n.controlPlane
	n.status.OwnCluster = n.controlPlane.State()
}

// planeConfig returns what the control plane of the node is made of, with the date of
// the image's kernel.
func (n *node) planeConfig(built time.Time) local.Config {
	config := local.Config{
		Store:     n.planeStore(),
		Root:      n.Root,
		Image:     n.image,
		Name:      n.status.Hostname,
		FsyncP99:  n.fsyncP99,
		Addresses: n.Addresses,
		NetworkChanges: func(ctx context.Context) (<-chan struct{}, error) {
			return watch.Changes(ctx, n.Root)
		},
		Current: n.currentChange,
		API:     func() (*api.Client, error) { return api.New(n.planeStore(), pki.Agent) },
		Fetch:   n.bundleFetcher(built),
		Go:      n.others.Go,
		Uptime:  n.Uptime,
		Built:   built,
		Now:     n.Now,
		Log:     n.Log,
	}
	if n.machine.Upgrade.Repository != "" {
		config.Prune = n.pruneBundles
	}
	return config
}

// pruneBundles removes the programs of versions before oldest, unless a generation
// names them: the other system may go on with its own, and an operator may go back.
func (n *node) pruneBundles(oldest string) error {
	named, err := namedBundles(generation.Read(n.engine.Config().State.Root().FS()))
	if err != nil {
		return err
	}
	return bundle.NewStore(durable.New(n.root, nil)).Prune(oldest, named)
}

// namedBundles returns the versions whose programs or images a unit of any generation
// names.
func namedBundles(generations generation.Reader) ([]string, error) {
	names, err := generations.List()
	if err != nil {
		return nil, err
	}

	var versions []string
	for _, name := range names {
		m, err := generations.Load(name)
		if err != nil {
			return nil, err
		}
		for _, e := range m.Entries {
			if e.Kind != generation.KindFile || path.Ext(e.Path) != ".service" {
				continue
			}
			text, err := readContent(generations, e)
			if err != nil {
				return nil, err
			}
			versions = append(versions, bundle.NamedIn(text)...)
		}
	}
	return versions, nil
}

func readContent(generations generation.Reader, e generation.Entry) ([]byte, error) {
	in, err := generations.Open(e)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(in)
	return text, errors.Join(err, in.Close())
}

// currentChange returns the digest of the configuration that the node runs, "" if
// none, and whether it is on trial. A damaged one counts as none: the next replaces
// it.
func (n *node) currentChange() (digest string, trying bool, err error) {
	current, _, err := n.engine.Current()
	if err != nil && !errors.Is(err, generation.ErrIncomplete) {
		return "", false, err
	}
	_, trying, err = n.engine.Pending()
	return current.Digest, trying, err
}

// bundleFetcher returns what fetches bundles of Kubernetes from the repository of
// machine.yaml, nil if it names none.
func (n *node) bundleFetcher(
	built time.Time,
) func(ctx context.Context, version string, progress func(done, all int64)) error {
	from := n.machine.Upgrade
	if from.Repository == "" {
		return nil
	}

	store := bundle.NewStore(durable.New(n.root, nil))
	return func(ctx context.Context, version string, progress func(done, all int64)) error {
		_, err := store.Fetch(ctx, bundle.Source{
			Ref:     from.Repository,
			Root:    []byte(from.Root),
			Keep:    upgrade.Files{Dir: n.engine.Config().State},
			Mirrors: from.Mirrors,
			Built:   built,
		}, bundle.Request{
			Version:  version,
			Arch:     runtime.GOARCH,
			Now:      n.Now(),
			Progress: progress,
			Log:      n.Log,
		})
		return err
	}
}
