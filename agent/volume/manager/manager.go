// Package manager looks after the data volume of a node.
package manager

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/mount"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/uevent"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/volume"
)

// ErrAvailable means that the data volume can be had now: the agent ends, to be started again with it.
var ErrAvailable = errors.New("the data volume is there")

// kubeletUnit uses the data volume.
const kubeletUnit = "kubelet.service"

// Units is what the data volume needs of systemd.
type Units interface {
	Show(ctx context.Context, names []string) ([]unit.State, error)
}

// NewNode is the node's, whose root directory is at path. units may be nil for one that the kubelet waits for.
func NewNode(root *os.Root, path string, units Units) volume.Node {
	node := volume.Node{
		Machine: volume.Machine{Root: os.DirFS(path), Open: func(node string, exclusive bool) (volume.Device, error) {
			return volume.OpenToLook(filepath.Join(path, node), exclusive)
		}},
		Maker:  volume.Maker{Open: volume.OpenDisk, Run: linux{}.Run, Scratch: filepath.Join(path, "run/loam")},
		System: linux{}, Dir: durable.New(root, nil), Path: path,
	}
	if units != nil {
		node.InUse = func(ctx context.Context) bool {
			states, err := units.Show(ctx, []string{kubeletUnit})
			mounts, _ := mount.Kernel{}.Table()
			return err != nil || len(mounts.Below(volume.Mountpoint)) > 0 || len(states) > 0 && !slices.Contains([]string{"inactive", "failed"}, states[0].Active)
		}
	}
	return node
}

// linux is volume.System.
type linux struct{}

// Run is of volume.System. The error has what the command said last.
func (linux) Run(ctx context.Context, command []string) error {
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	if err != nil {
		out = bytes.TrimSpace(out)
		return fmt.Errorf("%s: %w: %s", command[0], err, out[bytes.LastIndexByte(out, '\n')+1:])
	}
	return nil
}

func (linux) Mount(device, dir, fileSystem, options string) error {
	return unix.Mount(device, dir, fileSystem, unix.MS_NOATIME, options)
}

func (linux) Empty(dir string) error { return mount.Empty(dir) }

func (linux) Unmount(dir string) error { return unix.Unmount(dir, unix.UMOUNT_NOFOLLOW) }

// Manager looks after the node's: before the loop starts, when a configuration claims one, and while the node runs.
type Manager struct {
	volume.Node
	log *zap.Logger
	// own says that machine.yaml claims one: what a configuration asks for does not count.
	own bool
	// changed has how it is; of two that nobody has taken the newer counts.
	changed chan *status.Volume

	mu sync.Mutex
	// last is the volume as it was told, failed what is wrong with it.
	last   volume.State
	failed error
}

// New looks after the data volume of node.
func New(node volume.Node, log *zap.Logger) *Manager {
	return &Manager{Node: node, log: log, changed: make(chan *status.Volume, 1)}
}

// Changed tells how the volume is.
func (d *Manager) Changed() <-chan *status.Volume { return d.changed }

// Configure records what machine.yaml says, or else the size in the files of Gardener's node agent.
func (d *Manager) Configure(ctx context.Context, m machine.DataVolume, size int64) error {
	claim := m.Claim()
	if claim.IsZero() && size > 0 {
		claim = volume.OfSize(size)
	}
	if d.own = !claim.IsZero(); d.own {
		return d.claim(ctx, claim, cmp.Or(m.FileSystem, "ext4"))
	}
	record, was, err := volume.ReadRecord(d.Dir.Root().FS())
	if err != nil || !was || record.Made || record.Claim.About > 0 {
		return err
	}
	return d.Dir.Remove(volume.RecordFile) // It is not claimed any more, and never was there.
}

// claim records a claim. A kubelet that runs does not wait for the volume when it is restarted.
func (d *Manager) claim(ctx context.Context, c volume.Claim, fileSystem string) error {
	record, _, err := volume.ReadRecord(d.Dir.Root().FS())
	if err != nil {
		return err
	}
	want := volume.Record{Claim: c, FileSystem: fileSystem, Made: record.Made}
	if want == record {
		return nil
	}
	if !want.Made && d.InUse(ctx) {
		if err := d.Later(); err != nil {
			return err
		}
	}
	return want.Write(d.Dir)
}

// Start brings what is claimed. When the machine has just started, disks may come late, and their names: it waits for them, a little. Who
// has started the agent need not wait for that, nor for what is carried over.
func (d *Manager) Start(ctx context.Context, uptime time.Duration, ready func() error) error {
	record, claimed, err := volume.ReadRecord(d.Dir.Root().FS())
	if err != nil || !claimed {
		return err
	}
	events, err := uevent.Open(uevent.Udev, "block")
	if err != nil {
		return err
	}
	defer events.Close()
	if err := ready(); err != nil {
		return err
	}
	deadline := time.Now()
	if uptime < starting {
		deadline = deadline.Add(late)
		for !record.Made && events.Wait(time.Now().Add(quiet)) && time.Now().Before(deadline) {
		}
	}
	for {
		if err := d.bring(ctx); !errors.Is(err, volume.ErrNone) || !events.Wait(deadline) {
			return nil // It is told.
		}
	}
}

// starting is how long after power on a machine may still find its disks, late how long one waits for them. An empty disk is taken only when no other
// has come for quiet: it may not be the only one.
const (
	starting = 2 * time.Minute
	late     = 15 * time.Second
	quiet    = 3 * time.Second
)

// bring makes and mounts what is claimed, and tells how it is.
func (d *Manager) bring(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.Bring(ctx)
	if err != nil {
		d.log.Error("data volume", zap.Error(err))
	} else if s.Device != "" {
		d.log.Info("data volume mounted", zap.String("device", s.Device), zap.String("fileSystem", s.FileSystem), zap.Int64("bytes", s.Size))
	}
	d.tell(s, err)
	return err
}

// tell has what is known of the volume shown.
func (d *Manager) tell(s volume.State, err error) {
	d.last, d.failed = s, err
	var v *status.Volume
	if s.Device != "" || err != nil {
		v = &status.Volume{Device: s.Device, FileSystem: s.FileSystem, Size: s.Size, Warnings: s.Warnings}
	}
	if err != nil {
		v.Problem = err.Error()
	}
	select {
	case <-d.changed:
	default:
	}
	d.changed <- v
}

// Watch tells what becomes of the volume when disks come, go and grow, and when something is mounted, until ctx ends.
func (d *Manager) Watch(ctx context.Context, end context.CancelCauseFunc) {
	events, err := uevent.Open(uevent.Udev, "block")
	if err != nil {
		d.log.Error("disks are not watched", zap.Error(err))
		return
	}
	defer events.Close()
	mounts, err := volume.OpenMounts()
	if err != nil {
		d.log.Error("disks are not watched", zap.Error(err))
		return
	}
	defer mounts.Close()
	for {
		if err := d.again(ctx); err != nil {
			end(err)
		}
		if !events.Next(ctx, mounts.Poll()) {
			return
		}
	}
}

// again looks at the volume. One that was missing, and is mounted now or can be made, has the agent start anew: what it has written and watches
// is beneath it. One that cannot be made or mounted is not tried again and again.
func (d *Manager) again(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last.Size > 0 {
		s, err := d.Look(ctx, d.last.Size)
		if s.Device != d.last.Device || s.Size != d.last.Size || err != nil {
			d.tell(s, err)
		}
		return nil
	}
	if s, err := d.Mounted(); err != nil || s.Device != "" {
		if err == nil && s.Device != d.last.Device {
			err = ErrAvailable
		}
		return err
	}
	waits := d.Waits()
	missing := d.failed == nil || errors.Is(d.failed, volume.ErrNone) || errors.Is(d.failed, volume.ErrInUse)
	switch isNew := errors.Is(waits, volume.ErrNew); {
	case waits == nil || !missing:
		return nil
	case isNew && !d.InUse(ctx):
		return ErrAvailable
	case isNew:
		waits = volume.ErrInUse
	}
	if d.failed == nil || waits.Error() != d.failed.Error() {
		d.tell(volume.State{}, waits)
	}
	return nil
}

// Request brings the volume that a configuration's files for Gardener's node agent ask for, and any that was claimed before and never was there.
// What does not come has to wait for a restart if the kubelet runs; the configuration does not.
func (d *Manager) Request(ctx context.Context, size int64) error {
	var err error
	if size > 0 && !d.own {
		err = d.claim(ctx, volume.OfSize(size), "ext4")
	}
	if err != nil {
		return err
	}
	record, claimed, err := volume.ReadRecord(d.Dir.Root().FS())
	switch {
	case err != nil || !claimed || record.Made:
		return err
	case size == 0 && !d.own: // An earlier configuration asked for it, and it never was there.
		err = d.Dir.Remove(volume.RecordFile)
	}
	if err := errors.Join(err, d.bring(ctx)); err != nil && !d.InUse(ctx) {
		return err
	}
	return nil
}
