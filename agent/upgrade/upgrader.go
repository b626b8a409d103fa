package upgrade

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/power"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/bootdir"
	"github.com/loam-os/loam/firmware/secureboot"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/bundle"
)

// Upgrader brings systems onto one disk. One goroutine uses it.
type Upgrader struct {
	Disk    Disk
	Records Records
	// Anchor keeps the lowest security epoch beside Records; nil for none.
	Anchor Anchor
	Boot   Boot
	Node   Node
	// Sys is sysfs, for what the firmware starts and what the machine runs on.
	Sys fs.FS
	// Listener is told about steps and progress; nil for none.
	Listener Listener
	// Decide replaces [Next] in tests that seed bugs; nil otherwise.
	Decide func(View) Op
	Now    func() time.Time
	Log    *zap.Logger

	// esp is open while Run is under way.
	esp *esp
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
}

// Node is what an upgrade needs of the node beside its disk.
type Node interface {
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
	// for none.
	Done(op Op, j *Journal)
	// Progress is called while a part is filled.
	Progress(p Progress)
}

// Progress is how far an upgrade is.
type Progress struct {
	// Part is "root", "verity" or "uki".
	Part string
	// Size is the part's, in bytes.
	Size int64
	fill.Stats
}

// Begin begins an upgrade to the system of an index, unless there is a reason
// against it.
func (u *Upgrader) Begin(idx bundle.Index, w Options, f Facts) error {
	v, err := u.check(idx, w, f)
	if err != nil {
		return err
	}

	text, err := idx.Encode()
	if err != nil {
		return err
	}

	return u.begin(v, text, Journal{
		Target: System{idx.Version, idx.RootHash},
		Ref:    w.Ref,
		Epoch:  idx.Epoch,
		Stay:   w.Stay,
		AtOnce: w.AtOnce,
	})
}

// Rollback begins the way back to the system in the other slot, unless there is
// a reason against it, and returns that system. With plan it changes nothing.
func (u *Upgrader) Rollback(w Options, plan bool) (target System, err error) {
	var f Facts
	v, err := u.observe(&f)
	if err != nil {
		return target, err
	}

	e, err := readEpochs(u.Records)
	if err != nil {
		return target, err
	}

	var uki *authenticode.Image
	f.Firmware, err = secureboot.Observe(u.Sys)
	if err == nil && f.Firmware.On {
		uki, err = u.otherUKI(v)
	}

	if err != nil {
		return target, err
	}

	epoch := e.Of[v.Holds]
	target, err = PreflightRollback(v, f, epoch, uki)
	if err != nil || plan {
		return target, err
	}

	return target, u.begin(v, nil, Journal{
		Target:   target,
		Epoch:    epoch,
		Stay:     w.Stay,
		AtOnce:   true,
		Rollback: true,
	})
}

// Cancel ends the upgrade under way before the machine restarts with it, and
// returns its system. [Upgrader.Run] then takes away what is there of it.
func (u *Upgrader) Cancel() (System, error) {
	j, err := ReadJournal(u.Records)
	switch {
	case err != nil:
		return System{}, err
	case j != nil && j.Drill != nil:
		return System{}, refuse(fault.UpgradeUnderWay, "it ends by itself, see `loam status`",
			"a drill is under way, not an upgrade")
	case j != nil && j.Target == u.Boot.Running:
		return System{}, onTrialAlready(j.Target)
	case j == nil || j.From != u.Boot.Running:
		return System{}, refuse(fault.NothingToCancel, "`loam status` shows what the node runs",
			"no upgrade is under way")
	}

	// An upgrade that was canceled does not delay the next one.
	j.Canceled = true
	if err := u.Records.Remove(lastName); err != nil {
		return System{}, err
	}
	return j.Target, records.Save(u.Records, journalName, j)
}

// begin writes the journal of an upgrade, and its index, nil without. A second
// request for the same target continues the upgrade, with the new index.
func (u *Upgrader) begin(v View, index []byte, j Journal) error {
	describe := func() error {
		if index == nil {
			return u.Records.Remove(indexName)
		}
		return u.Records.Write(indexName, index)
	}

	if now := v.Journal; now != nil && now.Target == j.Target && now.Rollback == j.Rollback {
		now.Stay = j.Stay
		now.AtOnce = j.AtOnce
		now.Ref = j.Ref
		now.Canceled = false
		now.Epoch = j.Epoch

		if err := describe(); err != nil {
			return err
		}

		return records.Save(u.Records, journalName, now)
	}

	// An upgrade that is not armed makes room. Its index means nothing without
	// a journal.
	err := u.Records.Remove(journalName)
	for _, f := range []func() error{
		func() error { return Forget(u.Records, j.Target.RootHash) },
		describe,
		func() error {
			if j.Drill != nil { // A drill is no upgrade.
				return nil
			}
			return records.Save(u.Records, lastName, u.Now().UTC())
		},
	} {
		if err == nil {
			err = f()
		}
	}

	if err != nil {
		return err
	}

	u.filled = false
	j.Phase = Staging
	j.Present = find(v, j.Target.RootHash) != nil
	j.From = u.Boot.Running
	j.Began = u.Now().UTC().Truncate(time.Second)
	return records.Save(u.Records, journalName, j)
}

// Check returns why Begin would refuse, and changes nothing.
func (u *Upgrader) Check(idx bundle.Index, w Options, f Facts) error {
	_, err := u.check(idx, w, f)
	return err
}

func (u *Upgrader) check(idx bundle.Index, w Options, f Facts) (View, error) {
	v, err := u.observe(&f)
	if err != nil {
		return v, err
	}

	f.Firmware, err = secureboot.Observe(u.Sys)
	if err != nil {
		return v, err
	}

	f.Power, err = power.Observe(u.Sys)
	if err != nil {
		return v, err
	}

	return v, Preflight(v, f, idx, w)
}

// otherUKI returns the UKI of the system in the other slot, nil if there is
// none.
func (u *Upgrader) otherUKI(v View) (*authenticode.Image, error) {
	e := find(v, v.Holds)
	if v.Holds == "" || e == nil {
		return nil, nil
	}

	closeESP, err := u.open()
	if err != nil {
		return nil, err
	}

	im, err := u.esp.image(e)
	return im, errors.Join(err, closeESP())
}

// observe returns the state of the disk, and completes f for Preflight.
func (u *Upgrader) observe(f *Facts) (v View, err error) {
	closeESP, err := u.open()
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, closeESP()) }()

	v, err = u.view(Verdict{})
	if err != nil {
		return v, err
	}

	f.Room, err = u.room()
	if err != nil {
		return v, err
	}

	e, err := u.floor().read()
	f.Arch = u.Disk.Arch
	f.ImageID = u.Boot.ImageID
	f.Epoch = e.Floor
	f.Now = u.Now()

	return v, err
}

// floor returns the keeper of the lowest epoch.
func (u *Upgrader) floor() floorKeeper {
	return floorKeeper{u.Records, u.Anchor, u.Log, &u.anchorWarned}
}

// drills returns the keeper of the journal of a drill.
func (u *Upgrader) drills() drillKeeper { return drillKeeper{u.Records, u.Boot.ID, u.Now} }

// Run takes steps until the next one has to wait: it returns Nothing, Observe
// or Reboot.
func (u *Upgrader) Run(ctx context.Context, verdict Verdict, from fill.Sources) (op Op, err error) {
	closeESP, err := u.open()
	if err != nil {
		return Op{}, err
	}
	defer func() { err = errors.Join(err, closeESP()) }()

	decide := Next
	if u.Decide != nil {
		decide = u.Decide
	}

	for {
		v, err := u.view(verdict)
		if err != nil {
			return Op{}, err
		}

		u.note(v)
		op = decide(v)
		switch op.Kind {
		case Nothing, Observe, Reboot:
			return op, nil
		}

		u.Log.Info("upgrade", zap.String("step", string(op.Kind)), zap.String("entry", op.File),
			zap.String("to", op.To), zap.String("reason", op.Reason))
		if err := u.do(ctx, v, op, from); err != nil {
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

// Trial returns the judge of the running system, with the baseline from the
// journal.
func (u *Upgrader) Trial(limit time.Duration) (*Trial, error) {
	j, err := ReadJournal(u.Records)
	if err != nil || j == nil || j.Target != u.Boot.Running {
		return &Trial{Limit: limit}, err
	}
	if j.Drill != nil {
		return &Trial{Baseline: beforeDrill, Drill: true}, nil
	}
	return &Trial{Baseline: j.Baseline, Limit: limit}, nil
}

// view returns the state of the disk.
func (u *Upgrader) view(verdict Verdict) (View, error) {
	v := View{
		Running:   u.Boot.Running,
		Entry:     u.Boot.Entry,
		Filled:    u.filled,
		StagedUKI: u.esp.staged != nil,
		Verdict:   verdict,
	}

	var err error
	v.Journal, err = u.journal()
	if err != nil {
		return v, err
	}

	v.Failed, err = Failures(u.Records)
	if err != nil {
		return v, err
	}

	table, slot, err := u.Disk.target(v.Running)
	if err != nil {
		return v, err
	}

	if hash, complete := slot.Holds(table, u.Disk.Arch); complete {
		v.Holds = hex.EncodeToString(hash[:])
	}

	v.Recovery = recovery{u.esp, u.Log}.rootHash()
	v.Entries, err = entries(u.esp.FS)
	if err != nil && v.Recovery != v.Running.RootHash {
		return v, err
	}

	return v, u.drills().follow(v)
}

// journal returns the upgrade under way. It counts the boots of the old system
// since the upgrade was armed: each should have been a boot of the new one.
func (u *Upgrader) journal() (*Journal, error) {
	j, err := ReadJournal(u.Records)
	if err != nil || j == nil || j.Phase != Armed || j.Drill != nil || j.From != u.Boot.Running ||
		j.Boot == u.Boot.ID {
		return j, err
	}
	j.Boot = u.Boot.ID
	j.FromBoots = append(j.FromBoots, u.Boot.ID)
	j.Missed += 1
	return j, records.Save(u.Records, journalName, j)
}

// note leaves the reason of a failure for the system to which the machine falls
// back. Best effort: an error must not keep the bad system running.
func (u *Upgrader) note(v View) {
	j := v.Journal
	if j == nil || j.Target != u.Boot.Running || v.Verdict.Word != Bad || j.Reason != "" {
		return
	}
	j.Reason = v.Verdict.Reason
	if err := records.Save(u.Records, journalName, j); err != nil {
		u.Log.Error("note why the system is bad", zap.Error(err))
	}
}

// open opens the ESP. The caller must call close.
func (u *Upgrader) open() (close func() error, err error) {
	u.esp, err = u.Disk.openESP()
	if err != nil {
		return nil, err
	}
	return func() error {
		err := u.esp.close()
		u.esp = nil
		return err
	}, nil
}

// room returns the room for another system.
func (u *Upgrader) room() (Room, error) {
	table, slot, err := u.Disk.target(u.Boot.Running)
	if err != nil {
		return Room{}, err
	}

	entries, err := bootdir.Room(u.esp.FS)
	if err != nil {
		return Room{}, err
	}

	state, err := u.Records.Free()
	return Room{
		Root:      table.Partition(slot.Root).Size,
		Verity:    table.Partition(slot.Verity).Size,
		ESP:       u.esp.Free(),
		Entries:   entries,
		State:     state,
		OtherDisk: u.Boot.OtherDisk,
	}, err
}
