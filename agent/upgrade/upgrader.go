package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/agent/upgrade/fill"
)

// Upgrader brings systems onto one disk. One goroutine uses it.
type Upgrader struct {
	Disk    disk.Disk
	Records Records
	// Anchor keeps the lowest security epoch beside Records; nil if none.
	Anchor Anchor
	Boot   Boot
	Host   Host
	// Sys is sysfs, for what the firmware starts and what the machine runs on.
	Sys fs.FS
	// Listener is told about steps and progress; nil if none.
	Listener Listener
	// Decide replaces [Next] in tests that seed bugs; nil otherwise.
	Decide func(View) Op
	Now    func() time.Time
	Log    *zap.Logger

	// filled is [View.Filled].
	filled bool
	// anchorWarned says that the anchor's failure is in the log.
	anchorWarned bool
}

// Boot describes this boot of the machine.
type Boot struct {
	// ID is the kernel's boot ID.
	ID string
	// Running is the system, and ImageID its IMAGE_ID.
	Running System
	ImageID string
	// Entry is the name that a boot entry of Running has before its first try.
	Entry string
	// OtherDisk says that the loader came from another disk.
	OtherDisk bool
	// PCRKey is the fingerprint of the key that must have signed a UKI for the TPM
	// to open the encrypted state, "" if none must.
	PCRKey string
}

// Host is what an upgrade needs of the node beside its disk.
type Host interface {
	// Health returns the health of the node, nil if it cannot be observed now.
	Health(ctx context.Context) Health

	// Evidence returns lines about the last boot of a system that has failed.
	Evidence(ctx context.Context, j Journal) []string

	// HandOver gives the running configuration to another version, to start
	// with. With keepOwn, a version that has a configuration of its own keeps
	// it.
	HandOver(version string, keepOwn bool) error

	// Loader returns the boot loader that came with the running system,
	// fs.ErrNotExist if none did.
	Loader() ([]byte, error)

	// Panic makes the kernel panic, in drills.
	Panic() error
}

// Listener is told about the steps and the progress of an upgrade.
type Listener interface {
	// Done is called after each step. j is the upgrade that it belongs to, nil
	// if none.
	Done(op Op, j *Journal)
	// Progress is called while a part is filled.
	Progress(p disk.Progress)
}

// Run takes steps until the next one has to wait: it returns Nothing, Observe
// or Reboot.
func (u *Upgrader) Run(ctx context.Context, verdict Verdict, from fill.Sources) (op Op, err error) {
	esp, err := u.Disk.OpenESP()
	if err != nil {
		return Op{}, err
	}
	defer func() { err = errors.Join(err, esp.Close()) }()

	decide := Next
	if u.Decide != nil {
		decide = u.Decide
	}

	for {
		v, err := u.view(esp, verdict)
		if err != nil {
			return Op{}, err
		}

		// Best effort: an error must not keep the bad system running.
		if err := u.writers().journal.recordReason(v); err != nil {
			u.Log.Error("note why the system is bad", zap.Error(err))
		}

		op = decide(v)
		switch op.Kind {
		case Nothing, Observe, Reboot:
			return op, nil
		}

		u.Log.Info("upgrade", zap.String("step", string(op.Kind)), zap.String("entry", op.File),
			zap.String("to", op.To), zap.String("reason", op.Reason))
		if err := (step{u, esp, v, op}).do(ctx, from); err != nil {
			return op, fmt.Errorf("%s: %w", op.Kind, err)
		}

		if u.Listener != nil {
			u.Listener.Done(op, v.Journal)
		}

		if err := ctx.Err(); err != nil {
			return op, err
		}
	}
}

// writers are what writes, beside [entryWriter]: each writes one thing.
type writers struct {
	journal  journalKeeper
	drills   drillKeeper
	failures failureKeeper
	floor    floorKeeper
	slot     disk.OtherSlot
}

func (u *Upgrader) writers() writers {
	return writers{
		journal:  journalKeeper{u.Records, u.Boot, u.Now},
		drills:   drillKeeper{u.Records, u.Boot.ID, u.Now},
		failures: failureKeeper{u.Records, u.Now},
		floor: floorKeeper{
			records: u.Records,
			anchor:  u.Anchor,
			log:     u.Log,
			warned:  &u.anchorWarned,
		},
		slot: disk.OtherSlot{
			Disk:    u.Disk,
			Running: u.Boot.Running.RootHash,
			Records: u.Records,
			Log:     u.Log,
		},
	}
}
