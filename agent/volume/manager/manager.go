// Package manager looks after a volume of a node: [Manager.Start] before
// the agent's loop, [Manager.Request] when a configuration asks for a volume,
// and [Manager.Watch] while the node runs. The work on disks is in
// agent/volume.
//
// It is a package of its own because agent/volume is part of the init of a live
// system, which runs no commands and has no logger.
package manager

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/uevent"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/hint"
)

// ErrAvailable means that a volume that was missing can be mounted now.
// The agent must start again with it.
var ErrAvailable = errors.New("a volume is there")

const (
	// bootWindow is how long after power on a machine may still find its disks,
	// and diskDelay how long Start waits for them.
	bootWindow = 2 * time.Minute
	diskDelay  = 15 * time.Second
	// quietPeriod is how long no disk must have come before an empty disk is
	// taken: it may not be the only one.
	quietPeriod = 3 * time.Second

	defaultFileSystem = "ext4"
)

// Manager looks after a volume of one node. Configure and Start are
// called before the other methods, and not beside them.
type Manager struct {
	volume.Volume
	log *zap.Logger
	// own says that machine.yaml claims a volume: the size that a configuration
	// asks for does not count.
	own bool
	// changed has the volume as it was published last, until it is received.
	changed chan *status.Volume

	mu sync.Mutex
	// last is the volume that was published last, failed its problem.
	last   volume.State
	failed error
}

// New returns the Manager of a volume.
func New(v volume.Volume, log *zap.Logger) *Manager {
	return &Manager{
		Volume:  v,
		log:     log,
		changed: make(chan *status.Volume, 1),
	}
}

// Changed receives the volume when it has changed; only the newest if there are
// several.
func (m *Manager) Changed() <-chan *status.Volume { return m.changed }

// Configure records the claim of machine.yaml or, without one, a volume of size
// bytes as the files of Gardener's node agent ask for it; 0 if they do not.
func (m *Manager) Configure(ctx context.Context, own machine.Volume, size int64) error {
	claim := own.Claim()
	if claim.IsZero() && size > 0 {
		claim = volume.OfSize(size)
	}
	m.own = !claim.IsZero()
	if m.own {
		return m.claim(ctx, claim, cmp.Or(own.FileSystem, defaultFileSystem))
	}

	// Drop a claim of an earlier machine.yaml whose volume was never made. A
	// configuration's claim stays: only a configuration can drop it.
	record, claimed, err := m.For.ReadRecord(m.Dir.Root().FS())
	if err != nil || !claimed || record.Made || record.Claim.About > 0 {
		return err
	}
	return m.Dir.Remove(m.For.RecordFile)
}

// claim records a claim. A kubelet that runs already does not wait for the
// volume when it is restarted.
func (m *Manager) claim(ctx context.Context, claim volume.Claim, fileSystem string) error {
	record, _, err := m.For.ReadRecord(m.Dir.Root().FS())
	if err != nil {
		return err
	}

	want := volume.Record{
		Claim:      claim,
		FileSystem: fileSystem,
		Made:       record.Made,
		Encryption: record.Encryption,
	}
	if want == record {
		return nil
	}
	if !want.Made {
		if err := m.CheckUnused(); err != nil {
			return err
		}
	}
	if !want.Made && m.InUse(ctx) {
		if err := m.Defer(); err != nil {
			return err
		}
	}
	return m.For.WriteRecord(m.Dir, want)
}

// Start makes and mounts the volume that is claimed. Soon after power on it
// waits a little, as disks and their names may come late. It calls ready first:
// nothing that waits for the agent has to wait for disks, or for files that are
// migrated. A problem of the volume is published, and no error.
func (m *Manager) Start(ctx context.Context, uptime time.Duration, ready func() error) error {
	record, claimed, err := m.For.ReadRecord(m.Dir.Root().FS())
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
	if uptime < bootWindow {
		deadline = deadline.Add(diskDelay)
		if !record.Made {
			awaitNoDisk(events, deadline)
		}
	}
	for {
		err := m.ensure(ctx)
		if !errors.Is(err, volume.ErrNone) || !events.Wait(deadline) {
			return nil
		}
	}
}

// awaitNoDisk returns when no disk has come for quietPeriod, or after deadline.
func awaitNoDisk(events *uevent.Events, deadline time.Time) {
	for events.Wait(time.Now().Add(quietPeriod)) {
		if !time.Now().Before(deadline) {
			return
		}
	}
}

// ensure makes and mounts the volume that is claimed, and publishes the
// outcome.
func (m *Manager) ensure(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()

	state, err := m.Ensure(ctx)
	if err != nil {
		m.log.Error(m.For.Name, zap.Error(err))
	} else if state.Device != "" {
		m.log.Info(m.For.Name+" mounted",
			zap.String("device", state.Device),
			zap.String("fileSystem", state.FileSystem),
			zap.Int64("bytes", state.Size))
	}
	m.publish(state, err)
	return err
}

// publish sends the volume to the receiver of Changed. The caller holds mu.
func (m *Manager) publish(state volume.State, err error) {
	m.last = state
	m.failed = err

	var v *status.Volume
	if state.Device != "" || err != nil {
		v = &status.Volume{
			Device:     state.Device,
			FileSystem: state.FileSystem,
			Size:       state.Size,
			Warnings:   state.Warnings,
		}
	}
	if err != nil {
		v.Problem = err.Error()
		v.Hint = hint.Of(err)
	}

	// Replace what was not received yet.
	select {
	case <-m.changed:
	default:
	}
	m.changed <- v
}

// Watch observes the volume when disks come, go and grow, and when something is
// mounted, until ctx ends. It calls end with [ErrAvailable] if the agent must start
// again. The error says why it cannot watch: a process without a file left for the
// list of mounts must not end for that.
func (m *Manager) Watch(ctx context.Context, end context.CancelCauseFunc) error {
	events, err := uevent.Open(uevent.Udev, "block")
	if err != nil {
		return err
	}
	defer events.Close()
	mounts, err := volume.OpenMounts()
	if err != nil {
		return err
	}
	defer mounts.Close()

	for {
		err := m.observe(ctx)
		switch {
		case errors.Is(err, ErrAvailable):
			end(err)
		case err != nil:
			return err
		}
		if !events.Next(ctx, mounts.Poll()) {
			return nil
		}
	}
}

// observe publishes the volume if it has changed. It returns ErrAvailable if a
// volume that was missing is mounted now or can be made: what the agent has
// written and watches is beneath it. It does not retry a volume that cannot be
// made or mounted.
func (m *Manager) observe(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()

	if m.last.Size > 0 {
		state, err := m.Refresh(ctx, m.last.Size)
		if state.Device != m.last.Device || state.Size != m.last.Size || err != nil {
			m.publish(state, err)
		}
		return nil
	}

	state, err := m.Mounted()
	if err != nil {
		return err
	}
	if state.Device != "" {
		if state.Device != m.last.Device {
			return ErrAvailable
		}
		return nil
	}

	pending := m.Pending()
	missing := m.failed == nil || errors.Is(m.failed, volume.ErrNone) ||
		errors.Is(m.failed, m.For.InUse)
	if pending == nil || !missing {
		return nil
	}
	if errors.Is(pending, volume.ErrNew) {
		if !m.InUse(ctx) {
			return ErrAvailable
		}
		pending = m.For.InUse
	}
	if m.failed == nil || pending.Error() != m.failed.Error() {
		m.publish(volume.State{}, pending)
	}
	return nil
}

// Request makes the volume of size bytes that a configuration asks for, 0 if it
// asks for none, and any volume that was claimed before and never made. A
// volume that cannot be made is an error unless the kubelet runs: it has to
// wait for a restart then, and the configuration does not.
func (m *Manager) Request(ctx context.Context, size int64) error {
	if size > 0 && !m.own {
		if err := m.claim(ctx, volume.OfSize(size), defaultFileSystem); err != nil {
			return err
		}
	}

	record, claimed, err := m.For.ReadRecord(m.Dir.Root().FS())
	if err != nil || !claimed || record.Made {
		return err
	}

	// Drop the claim of an earlier configuration whose volume was never made.
	if size == 0 && !m.own {
		err = m.Dir.Remove(m.For.RecordFile)
	}
	if err := errors.Join(err, m.ensure(ctx)); err != nil && !m.InUse(ctx) {
		return err
	}
	return nil
}
