// Package repair repairs the state partition of a node. It runs in a repair boot:
// /init has not mounted the partition (boot.Damage), the system is the verified
// one, and its state is in memory.
//
//	damage, record on the ESP --> View --Next--> Op --do--> disk
//	                               ^                         |
//	                               +-------------------------+
//
// [Next] is pure and returns one step at a time. A power cut leaves a step done
// or not done, or e2fsck anywhere in its work; the next boot finds the partition
// as it is then, and begins again.
//
// # Repair
//
// e2fsck -p repairs what loses nothing. What it leaves, e2fsck -y repairs, which
// may remove files. Before that, the output of e2fsck -n, which says all that is
// wrong, is on the ESP: a power cut while e2fsck writes does not lose it. An
// e2fsck that has more to say than 64 MiB is stopped, and the partition stays.
// e2fsck removes a journal that is damaged; tune2fs makes it anew.
// The log goes to /var/lib/loam/repair on the repaired partition. A partition is
// repaired when e2fsck -n finds nothing and the kernel mounts it. Then the
// machine restarts.
//
// A partition with no trace of a file system of ours is never repaired: e2fsck
// could find an old copy of a superblock below an owner's data.
//
// # Encryption
//
// Of an encrypted state, the device is the open container, so all of the above
// happens inside it. But the ESP is not encrypted: the log is there, with the
// names of files, and no copy of the partition. A container that no key opens
// stays as it is, whatever machine.yaml says.
//
// # Reset
//
// What cannot be repaired stays as it is, and the node stays up with its state in
// memory. If machine.yaml says state.onDamage: reset, a copy of the partition
// goes to the ESP if there is room, and the partition is marked: the next boot
// formats it.
//
// A partition in which e2fsck -n finds nothing is never marked, whatever
// machine.yaml says and however often it was repaired: e2fsck -p and -n run once
// more before a reset. What else keeps the node from it, such as a kernel that
// does not mount it, is for an operator.
//
// # Never a loop
//
// The record on the ESP counts repairs and resets, each before it begins. After
// three repairs or two resets within a day, or if the record cannot be written,
// the machine does not restart by itself. A record that is damaged is replaced, and
// its counts begin again.
package repair

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/crypt"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// System is what a repair needs of the machine beside its disk.
type System interface {
	// WithState mounts the device of the state partition, calls do with the
	// directory, and unmounts it. The error of a failed mount is ErrMount.
	WithState(device string, do func(root *os.Root) error) error

	// Resets reports whether machine.yaml has state.onDamage: reset.
	Resets(ctx context.Context) (bool, error)

	// Show shows the repair to operators.
	Show(r status.Repair)

	// GiveBackTry undoes that the boot loader has counted this boot as a try of
	// a system on trial.
	GiveBackTry() error

	// Restart restarts the machine.
	Restart(ctx context.Context) error
}

// ErrMount says that the kernel does not mount the state partition.
var ErrMount = errors.New("mount the state partition")

// Runner repairs the state partition of a node: it runs what [Next] decides.
type Runner struct {
	Damage boot.Damage
	// Device is the state partition, "" if it is absent. ESP is the EFI system
	// partition.
	Device, ESP string
	// Encrypted means that Device is an open container.
	Encrypted bool
	// Dir is a directory in memory for the log.
	Dir    string
	System System
	Now    func() time.Time
	Log    *zap.Logger
}

// Run repairs the state partition as far as possible. It returns how that
// ended; if the partition can be used, the machine is about to restart.
func (r Runner) Run(ctx context.Context) (status.Repair, error) {
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return status.Repair{}, fmt.Errorf("repair the state partition: %w", err)
	}

	if r.Damage.Locked {
		return r.stayLocked(), nil
	}

	v := r.observe(ctx)
	for {
		if err := ctx.Err(); err != nil {
			return v.Record.Repair, fmt.Errorf("repair the state partition: %w", err)
		}

		op := Next(v)
		r.Log.Info("repair the state partition", zap.String("step", string(op)))
		switch op {
		case Restart:
			return v.Record.Repair, r.restart(ctx)
		case Stay:
			v.Record.State = status.RepairFailed
			v.Record.Problem, v.Record.Hint = v.why()
			v.Record.Code = fault.StateDamaged
			r.conclude(&v)
			return v.Record.Repair, nil
		}

		r.do(ctx, op, &v)
		r.System.Show(v.Record.Repair)
	}
}

// stayLocked changes nothing, and so records nothing: the next boot may have the
// key.
func (r Runner) stayLocked() status.Repair {
	locked := status.Repair{
		State:   status.RepairFailed,
		At:      r.Now(),
		Device:  r.Device,
		Damage:  r.Damage.Reason,
		Problem: "nothing on it is changed",
		Hint:    crypt.HowToGive + ", and restart it",
		Code:    fault.StateLocked,
	}
	r.System.Show(locked)
	return locked
}

// observe returns the view before the first step.
func (r Runner) observe(ctx context.Context) View {
	v := View{Present: r.Device != "", Ext4: r.Damage.Ext4}
	record, err := r.readRecord()
	if err != nil {
		v.Uncounted = hint.Line(err)
	}

	now := r.Now()
	v.Record = record
	v.Before = v.Record.State
	v.Record.Repair = status.Repair{
		State:  status.Repairing,
		At:     now,
		Device: r.Device,
		Damage: r.Damage.Reason,
	}
	r.System.Show(v.Record.Repair)

	v.Reset, err = r.System.Resets(ctx)
	if err != nil {
		r.Log.Warn("what to do with a damaged state partition", zap.Error(err))
	}
	return v
}

// do does a step and takes its result into the view. A step that fails is not
// done again in this boot.
func (r Runner) do(ctx context.Context, op Op, v *View) {
	switch op {
	case CountRepair:
		v.Counted = true
		v.Record.Repairs++
		v.Record.RepairedAt = with(v.Record.RepairedAt, v.Record.At)
		v.Uncounted = "" // A record that cannot be read is replaced.
		r.record(v)
	case Preen:
		v.Preened = true
		r.e2fsck(ctx, v, "-f", "-p")
	case Judge:
		v.Judged = true
		v.Clean = r.e2fsck(ctx, v, "-f", "-n")
		v.NoJournal = r.lacksJournal()
	case SaveLog:
		v.LogSaved = true
		r.saveLog(v)
	case Force:
		v.Forced++
		v.Judged = false
		r.e2fsck(ctx, v, "-f", "-y")
	case Journal:
		v.Judged = false
		r.makeJournal(ctx, v)
	case KeepLog:
		v.LogKept = true
		r.keepLog(v)
	case RecordRepaired:
		v.Recorded = true
		v.Record.State = status.RepairDone
		r.conclude(v)
	case KeepAside:
		v.Aside = true
		r.keepAside(v)
	case CountReset:
		v.Recorded = true
		v.Record.Resets++
		v.Record.ResetAt = with(v.Record.ResetAt, v.Record.At)
		v.Record.State = status.RepairReset
		r.conclude(v)
	case Mark:
		v.Marked = true
		if err := mark(r.Device); err != nil {
			v.fail(err)
		}
	}
}

// fail records why the partition cannot be used.
func (v *View) fail(err error) {
	v.Failed = true
	v.Record.Problem = hint.Line(err)
}

// keepLog mounts the partition, which shows that it can be, and stores the log on
// it. A log that does not fit stays on the ESP.
func (r Runner) keepLog(v *View) {
	name := "lib/loam/repair/" + v.Record.At.UTC().Format("20060102T150405Z") + ".log"
	err := r.System.WithState(r.Device, func(root *os.Root) error {
		log, err := os.Open(r.logFile())
		if err != nil {
			return err
		}
		defer log.Close()

		dir := durable.New(root, nil)
		if err := dir.MkdirAll(filepath.Dir(name)); err != nil {
			return err
		}
		return dir.WriteFrom(name, log, 0o600)
	})

	switch {
	case errors.Is(err, ErrMount):
		v.fail(err)
	case err != nil:
		r.Log.Warn("store the log of the repair", zap.Error(err))
	default:
		v.Record.Log = "/var/" + name
	}
}

// restart restarts the machine. A system on trial does not pay for the damage
// with its tries.
func (r Runner) restart(ctx context.Context) error {
	if err := r.System.GiveBackTry(); err != nil {
		r.Log.Warn("give the try of this boot back", zap.Error(err))
	}
	return r.System.Restart(ctx)
}
