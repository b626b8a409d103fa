package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/etcd"
	"github.com/loam-os/loam/agent/plane/etcd/disk"
	"github.com/loam-os/loam/agent/plane/etcd/room"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/agent/volume/manager"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// stateFileSystem is a directory of the file system that etcd's data are on without a
// volume of their own.
const stateFileSystem = "var/lib"

// etcdDisk is the disk that the data of etcd are on, or are to be on.
type etcdDisk struct {
	Env
	volume *manager.Manager
	store  plane.Store
}

// newCluster is the cluster that machine.yaml has the node make.
type newCluster struct {
	// record is nil if the node is to make none.
	record *plane.Record
	// fsyncP99 is what was measured of the disk for etcd.
	fsyncP99 time.Duration
}

// newCluster returns the cluster that the node is to make, unless it is the first
// of that cluster already. A disk that is too slow for etcd is refused. The error
// is errNoVolume if the volume for etcd has a problem, which its status shows.
func (d etcdDisk) newCluster(
	ctx context.Context, settings plane.Settings, allowSlow bool,
) (c newCluster, warning, err error) {
	r := plane.NewRecord(settings)
	found, err := d.store.CheckInit(r)
	if found || err != nil {
		return newCluster{}, nil, local.AtInit(err)
	}

	p99, warning, err := d.admit(ctx, allowSlow)
	if err != nil {
		return newCluster{}, warning, err
	}

	// The volume that is mounted now may have the data of another cluster.
	if _, err := d.store.CheckInit(r); err != nil {
		return newCluster{}, warning, local.AtInit(err)
	}
	return newCluster{record: &r, fsyncP99: p99}, warning, nil
}

// claim records the claim of machine.yaml to a volume for etcd. A cluster that
// has its data elsewhere would lose them.
func (d etcdDisk) claim(ctx context.Context, claim machine.Volume) error {
	if claim == (machine.Volume{}) {
		return d.volume.Configure(ctx, claim, 0)
	}

	kept, claimed, err := volume.Etcd.ReadRecord(d.volume.Dir.Root().FS())
	if err != nil {
		return err
	}
	r, found, err := d.store.Followed()
	if err != nil {
		return err
	}
	switch {
	case !found && claimed && kept.Claim != claim.Claim():
		// After a reset, another disk may take the place of the one before.
		kept.Made = false
		if err := volume.Etcd.WriteRecord(d.volume.Dir, kept); err != nil {
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
	return d.volume.Configure(ctx, claim, 0)
}

// errNoVolume says that the volume for etcd has a problem.
var errNoVolume = errors.New("no volume for etcd")

// directory returns a directory of the file system that the data of etcd will be on.
// If a volume is claimed for them, it makes and mounts that, and the error is errNoVolume
// if it has a problem.
func (d etcdDisk) directory(ctx context.Context) (string, error) {
	_, claimed, err := volume.Etcd.ReadRecord(d.volume.Dir.Root().FS())
	if err != nil || !claimed {
		return stateFileSystem, err
	}

	if err := d.volume.Start(ctx, d.Uptime(), unit.Ready); err != nil {
		return "", err
	}
	state, err := d.volume.Mounted()
	if err == nil && state.Device == "" {
		err = errNoVolume
	}
	return volume.Etcd.Mountpoint, err
}

// admit returns the 99th percentile of the time of a sync of the disk, or why it
// cannot have the data of etcd. A disk that is too slow is only a warning if
// machine.yaml allows it.
func (d etcdDisk) admit(
	ctx context.Context, allowSlow bool,
) (p99 time.Duration, warning, err error) {
	directory, err := d.directory(ctx)
	if err != nil {
		return 0, nil, err
	}
	p99, err = disk.Admit(ctx, d.Fsync, filepath.Join(d.Root, directory))
	if err == nil {
		d.Log.Info("the disk is fast enough for etcd",
			zap.Duration("fsyncP99", p99), zap.Duration("limit", disk.SlowFsync),
			zap.Stringer("timing", disk.TimingOf(p99)))
		return p99, nil, nil
	}

	d.Log.Warn("the disk for etcd", zap.Error(err), zap.Bool("allowed", allowSlow))
	if allowSlow {
		return p99, errors.New(err.Error()), nil // The hint is what machine.yaml has done.
	}
	return 0, nil, err
}

// maintainEtcd keeps etcd able to write until ctx ends. begun is closed when the node
// has its cluster.
func maintainEtcd(ctx context.Context, env Env, store plane.Store, begun <-chan struct{}) {
	select {
	case <-ctx.Done():
		return
	case <-begun:
	}

	keeper := room.Keeper{
		Dir:    filepath.Join(env.Root, plane.EtcdDirectory),
		Report: func(e room.Event) { logEtcdRoom(env.Log, e) },
	}
	maintenance := etcd.Maintenance{
		Connect: func() (etcd.Client, error) { return local.EtcdClient(store) },
		Now:     env.Now,
		Report:  func(e etcd.Event) { logEtcd(env.Log, e) },
	}

	var both sync.WaitGroup
	both.Go(func() { keeper.Run(ctx) })
	both.Go(func() { maintenance.Run(ctx) })
	both.Wait()
}

func logEtcdRoom(log *zap.Logger, e room.Event) {
	switch {
	case e.Err != nil:
		log.Warn("room for etcd on the disk", zap.Error(e.Err))
	case e.All:
		log.Info("etcd has its room on the disk again")
	default:
		log.Warn("the disk is too full to reserve room for etcd, which ends when it is full: free some")
	}
}

func logEtcd(log *zap.Logger, e etcd.Event) {
	fields := []zap.Field{zap.String("condition", string(e.Condition))}
	if e.Condition != etcd.Away {
		fields = append(fields, zap.Stringer("state", e.State))
	}
	if e.Step.Action != etcd.Nothing {
		fields = append(fields,
			zap.String("action", string(e.Step.Action)), zap.String("reason", e.Step.Reason))
	}

	if e.Err != nil {
		log.Warn("etcd", append(fields, zap.String("problem", hint.Line(e.Err)))...)
		return
	}
	log.Info("etcd", fields...)
}
