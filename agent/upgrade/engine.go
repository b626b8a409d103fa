package upgrade

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/power"
	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/secureboot"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/partitions/gpt"
)

// Upgrader brings systems onto one disk. One goroutine uses it.
type Upgrader struct {
	Disk Disk
	Keep Keeper
	// Anchor keeps the lowest security epoch beside Keep; nil for none.
	Anchor Anchor
	// Scratch is Keep's file scratchName, of that size; what it held before may be in
	// it.
	Scratch func(size int64) (Closer, error)
	// Free is how many bytes there are for both.
	Free func() (int64, error)
	// Running is the system of this boot, ImageID its IMAGE_ID, Entry the name of an
	// entry of it that was never tried.
	Running System
	ImageID string
	Entry   string
	// OtherDisk says that the loader came from another disk.
	OtherDisk bool
	// Sys is sysfs, for what the firmware starts and what the machine runs on.
	Sys fs.FS
	// BootID is the kernel's id of this boot.
	BootID string
	// Health is how the node is, nil if that cannot be told now; Evidence are lines about the last boot of a system
	// that has failed.
	Health   func(ctx context.Context) Health
	Evidence func(ctx context.Context, j Journal) []string
	// Carry has the configuration of this system be the one that another starts with;
	// with own, only if that has none of its own.
	Carry func(version string, own bool) error
	// Loader is the boot loader that came with the running system, fs.ErrNotExist if none
	// did; nil for none.
	Loader func() ([]byte, error)
	// Panic has the kernel panic, in drills.
	Panic func() error
	// Done is told of each step that is done, of which upgrade if it is of one; nil for
	// nobody.
	Done func(op Op, j *Journal)
	// Near is a chunk of n bytes that somebody near by has, nil for none: it is verified.
	Near func(ctx context.Context, c bundle.Chunk, n int) []byte
	// Progress is told how far a fill is; nil for nobody.
	Progress func(p Progress)
	Now      func() time.Time
	Log      *zap.Logger

	// mutant decides in place of Next, in tests that seed bugs.
	mutant func(v View) Op
	// filled is of this process; see View. esp and staged are of one Run.
	filled bool
	// said says that the anchor was complained about.
	said   bool
	esp    *fat.FS
	staged *staged
}

// staged is a UKI on the ESP that has no entry yet.
type staged struct {
	chain fat.Chain
	size  int64
}

// Progress is how far an upgrade is.
type Progress struct {
	// Part is "root", "verity" or "uki"; Size is its bytes.
	Part string
	Size int64
	Filled
}

// ErrNoPack says that the bundle's chunks cannot be reached: to be tried again.
var ErrNoPack = fmt.Errorf("the bundle: %w", control.ErrUnreachable)

// Begin notes that the system of an index is wanted, after all reasons against it
// were looked at.
func (u *Upgrader) Begin(idx bundle.Index, w Wish, f Facts) error {
	v, err := u.check(idx, w, f)
	if err != nil {
		return err
	}
	text, err := idx.Encode()
	if err != nil {
		return err
	}
	return u.begin(v, text, Journal{Target: System{idx.Version, idx.RootHash}, Ref: w.Ref, Epoch: idx.Epoch, Stay: w.Stay, AtOnce: w.AtOnce})
}

// Back notes that the system in the other slot is wanted, after all reasons against
// it were looked at, and says which it is. With plan it changes nothing.
func (u *Upgrader) Back(w Wish, plan bool) (target System, err error) {
	var f Facts
	v, err := u.look(&f)
	if err != nil {
		return target, err
	}
	e, err := readEpochs(u.Keep)
	if err != nil {
		return target, err
	}
	var uki *authenticode.Image
	if f.Firmware, err = secureboot.Observe(u.Sys); err == nil && f.Firmware.On {
		uki, err = u.otherUKI(v)
	}
	if err != nil {
		return target, err
	}
	epoch := e.Of[v.Holds]
	target, err = PreflightBack(v, f, epoch, uki)
	if err != nil || plan {
		return target, err
	}
	return target, u.begin(v, nil, Journal{Target: target, Epoch: epoch, Stay: w.Stay, AtOnce: true, Back: true})
}

// begin writes the journal of an upgrade, and its index, nil for none. The same once
// more goes on where it is, by the index of where it comes from now.
func (u *Upgrader) begin(v View, index []byte, j Journal) error {
	describe := func() error {
		if index == nil {
			return u.Keep.Remove(indexName)
		}
		return u.Keep.Write(indexName, index)
	}
	if now := v.Journal; now != nil && now.Target == j.Target && now.Back == j.Back {
		now.Stay, now.AtOnce, now.Ref, now.Epoch = j.Stay, j.AtOnce, j.Ref, j.Epoch
		if err := describe(); err != nil {
			return err
		}
		return write(u.Keep, journalName, now)
	}
	// One that is not armed makes room: without a journal, its index is nothing.
	err := u.Keep.Remove(journalName)
	for _, f := range []func() error{
		func() error { return Forget(u.Keep, j.Target.RootHash) },
		describe,
		func() error {
			if j.Drill != nil { // It brings nothing.
				return nil
			}
			return write(u.Keep, lastName, u.Now().UTC())
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
	j.Phase, j.From, j.Began = Staging, u.Running, u.Now().UTC().Truncate(time.Second)
	return write(u.Keep, journalName, j)
}

// Check says whether Begin would refuse it, and changes nothing.
func (u *Upgrader) Check(idx bundle.Index, w Wish, f Facts) error {
	_, err := u.check(idx, w, f)
	return err
}

func (u *Upgrader) check(idx bundle.Index, w Wish, f Facts) (View, error) {
	v, err := u.look(&f)
	if err != nil {
		return v, err
	}
	if f.Firmware, err = secureboot.Observe(u.Sys); err != nil {
		return v, err
	}
	if f.Power, err = power.Observe(u.Sys); err != nil {
		return v, err
	}
	return v, Preflight(v, f, idx, w)
}

// otherUKI is that of the system in the other slot, nil if there is none.
func (u *Upgrader) otherUKI(v View) (_ *authenticode.Image, err error) {
	e := find(v, v.Holds)
	if v.Holds == "" || e == nil {
		return nil, nil
	}
	closeESP, err := u.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeESP()) }()
	r, err := u.esp.Open(fat.BootDir + "/" + e.File)
	if err != nil {
		return nil, err
	}
	im, err := authenticode.Read(r, e.size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.File, err)
	}
	return &im, nil
}

// look is how the disk is, with what Preflight goes by of it.
func (u *Upgrader) look(f *Facts) (v View, err error) {
	closeESP, err := u.open()
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, closeESP()) }()
	if v, err = u.view(Verdict{}); err != nil {
		return v, err
	}
	if f.Room, err = u.room(); err != nil {
		return v, err
	}
	e, err := u.floor()
	f.Arch, f.ImageID, f.Epoch, f.Now = u.Disk.Arch, u.ImageID, e.Floor, u.Now()
	return v, err
}

// Run does what is next until that is to wait for something else: it returns
// Nothing, Observe or Reboot.
func (u *Upgrader) Run(ctx context.Context, verdict Verdict, pack Packed) (op Op, err error) {
	closeESP, err := u.open()
	if err != nil {
		return Op{}, err
	}
	defer func() { err = errors.Join(err, closeESP()) }()
	decide := Next
	if u.mutant != nil {
		decide = u.mutant
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
		u.Log.Info("upgrade", zap.String("step", string(op.Kind)), zap.String("entry", op.File), zap.String("to", op.To), zap.String("reason", op.Reason))
		if err := u.do(ctx, v, op, pack); err != nil {
			return op, fmt.Errorf("%s: %w", op.Kind, err)
		}
		if u.Done != nil {
			u.Done(op, v.Journal)
		}
		if err := ctx.Err(); err != nil {
			return op, err
		}
	}
}

// Trial judges the system that runs by what the journal says of the one before.
func (u *Upgrader) Trial(limit time.Duration) (*Trial, error) {
	j, err := ReadJournal(u.Keep)
	if err != nil || j == nil || j.Target != u.Running {
		return &Trial{Limit: limit}, err
	}
	if j.Drill != nil {
		return &Trial{Baseline: beforeDrill, Drill: true}, nil
	}
	return &Trial{Baseline: j.Baseline, Limit: limit}, nil
}

// view is how the disk is now.
func (u *Upgrader) view(verdict Verdict) (View, error) {
	v := View{Running: u.Running, Entry: u.Entry, Filled: u.filled, StagedUKI: u.staged != nil, Verdict: verdict}
	var err error
	if v.Journal, err = u.journal(); err != nil {
		return v, err
	}
	if v.Failed, err = Failures(u.Keep); err != nil {
		return v, err
	}
	table, slot, err := u.target()
	if err != nil {
		return v, err
	}
	if hash, whole := slot.Holds(table, u.Disk.Arch); whole {
		v.Holds = hex.EncodeToString(hash[:])
	}
	v.Recovery = u.recovery()
	if v.Entries, err = entries(u.esp); err != nil && v.Recovery != u.Running.RootHash {
		return v, err
	}
	return v, u.follow(v)
}

// journal is the upgrade under way. It counts the boots of the old system since it
// was armed: each should have been one of the new.
func (u *Upgrader) journal() (*Journal, error) {
	j, err := ReadJournal(u.Keep)
	if err != nil || j == nil || j.Phase != Armed || j.Drill != nil || j.From != u.Running || j.Boot == u.BootID {
		return j, err
	}
	j.Boot, j.Missed = u.BootID, j.Missed+1
	return j, write(u.Keep, journalName, j)
}

// note leaves, for the system that the machine falls back to, what the one on trial
// knows of its failure. That it cannot is no reason to stay.
func (u *Upgrader) note(v View) {
	j := v.Journal
	if j == nil || j.Target != u.Running || v.Verdict.Word != Bad || j.Reason != "" {
		return
	}
	j.Reason = v.Verdict.Reason
	if err := write(u.Keep, journalName, j); err != nil {
		u.Log.Error("note why the system is bad", zap.Error(err))
	}
}

// target is the slot that does not run, in the table as it is now. A table with one
// damaged copy is mended first.
func (u *Upgrader) target() (gpt.Table, partitions.Slot, error) {
	table, err := gpt.Read(u.Disk.Whole, u.Disk.Size, u.Disk.SectorSize)
	if err != nil {
		return table, partitions.Slot{}, err
	}
	if !table.Source.Healthy() {
		if err := table.Write(u.Disk.Whole); err != nil {
			return table, partitions.Slot{}, err
		}
	}
	_, other, err := u.Disk.slots(table, u.Running)
	return table, other, err
}

// open opens the ESP for as long as Run goes on: what is staged there has no name
// until it is linked.
func (u *Upgrader) open() (close func() error, err error) {
	table, err := gpt.Read(u.Disk.Whole, u.Disk.Size, u.Disk.SectorSize)
	if err != nil {
		return nil, err
	}
	kind := partitions.TypeUUID(partitions.ESP, u.Disk.Arch)
	at := slices.IndexFunc(table.Partitions, func(p gpt.Partition) bool { return p.Type == kind })
	if at < 0 {
		return nil, errors.New("the disk has no ESP")
	}
	dev, err := u.Disk.Open(table.Partitions[at])
	if err != nil {
		return nil, fmt.Errorf("open the ESP: %w", err)
	}
	if u.esp, err = fat.Open(dev, table.Partitions[at].Size, u.Disk.SectorSize); err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return func() error {
		u.esp, u.staged = nil, nil
		return dev.Close()
	}, nil
}

// room is what another system could take.
func (u *Upgrader) room() (Room, error) {
	table, slot, err := u.target()
	if err != nil {
		return Room{}, err
	}
	entries, err := u.esp.RoomCounted()
	if err != nil {
		return Room{}, err
	}
	state, err := u.Free()
	return Room{
		Root: table.Partition(slot.Root).Size, Verity: table.Partition(slot.Verity).Size,
		ESP: u.esp.Free(), Entries: entries, State: state, OtherDisk: u.OtherDisk,
	}, err
}

// part does something with a partition of the target.
func (u *Upgrader) part(p gpt.Partition, do func(d Device) error) error {
	dev, err := u.Disk.Open(p)
	if err != nil {
		return err
	}
	return errors.Join(do(dev), dev.Close())
}

// parts does something with the content of a slot.
func (u *Upgrader) parts(table gpt.Table, slot partitions.Slot, do func(root, tree Device) error) error {
	return u.part(table.Partition(slot.Root), func(root Device) error {
		return u.part(table.Partition(slot.Verity), func(tree Device) error { return do(root, tree) })
	})
}
