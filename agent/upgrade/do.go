package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/firmware/bootdir"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
)

// do carries out one step.
func (u *Upgrader) do(ctx context.Context, v View, op Op, from fill.Sources) error {
	switch op.Kind {
	case Drop:
		return u.esp.Remove(bootentry.Dir + "/" + op.File)
	case Relink:
		if err := u.resetMissed(v.Journal); err != nil {
			return err
		}
		return bootdir.AddName(u.esp.FS, op.File, op.To)
	case Rename:
		if err := u.drills().rename(v.Journal, op.To); err != nil {
			return err
		}
		return u.esp.Rename(bootentry.Dir, op.File, op.To, false)
	case Park: // The loader would count the tries of a parked entry, too, in two sectors.
		if err := u.resetMissed(v.Journal); err != nil {
			return err
		}
		return u.esp.Rename(bootentry.Dir, op.File, op.To, true)
	case Verify:
		return u.verifySlot(v)
	case Restore:
		return recovery{u.esp, u.Log}.restore(v.Running, op.To)
	case Empty, Seal:
		return u.mark(op.Kind, v)
	case Fill:
		return u.fillSlot(ctx, *v.Journal, from)
	case StageUKI:
		return u.stageUKI(ctx, v, from)
	case CopyUKI:
		return u.esp.copy(find(v, v.Running.RootHash))
	case Arm:
		return u.arm(ctx, *v.Journal)
	case Link:
		return u.link(op.To, *v.Journal)
	case Remember:
		return u.recordFailure(ctx, *v.Journal, op.Reason)
	case Crash:
		if err := u.Node.Panic(); err != nil {
			return err
		}
		return errors.New("the kernel has survived it")
	case Conclude:
		return u.drills().conclude(*v.Journal, op.Reason)
	case Finish:
		return u.finish(v)
	}

	return fmt.Errorf("%s: no such step", op.Kind)
}

// arm records the health of the node, as the baseline of the trial.
func (u *Upgrader) arm(ctx context.Context, j Journal) error {
	j.Phase = Armed
	j.Boot = u.Boot.ID
	j.FromBoots = []string{u.Boot.ID}

	if j.Drill != nil {
		return records.Save(u.Records, journalName, j)
	}

	err := u.Node.HandOver(j.Target.Version, j.Rollback)
	if err != nil {
		return err
	}

	j.Baseline, err = baseline(ctx, u.Node.Health)
	if err != nil {
		return err
	}

	return records.Save(u.Records, journalName, j)
}

// renewBaseline records the health again before the restart: an armed upgrade
// may have waited for days.
func (u *Upgrader) renewBaseline(ctx context.Context) error {
	j, err := ReadJournal(u.Records)
	if err != nil || j == nil || j.Phase != Armed || j.From != u.Boot.Running || j.Drill != nil {
		return err
	}
	j.Baseline, err = baseline(ctx, u.Node.Health)
	if err != nil {
		return err
	}
	return records.Save(u.Records, journalName, j)
}

// link makes the boot entry. From now on the loader starts the target.
func (u *Upgrader) link(name string, j Journal) error {
	if err := errors.Join(u.resetMissed(&j), u.drills().rename(&j, name)); err != nil {
		return err
	}
	return u.esp.link(name)
}

// resetMissed starts the count of missed boots again, because the loader could
// not start the target before now.
func (u *Upgrader) resetMissed(j *Journal) error {
	if j == nil || j.Missed == 0 {
		return nil
	}
	j.Missed = 0
	return records.Save(u.Records, journalName, j)
}

// verifySlot verifies a target that was in the slot before. If it is damaged,
// its entry goes, and the slot is filled again if there is an index.
func (u *Upgrader) verifySlot(v View) error {
	table, slot, err := u.Disk.target(u.Boot.Running)
	if err != nil {
		return err
	}

	hash, err := verity.ParseRootHash(v.Journal.Target.RootHash)
	if err != nil {
		return err
	}

	var damage error
	err = u.Disk.withSlot(table, slot, func(root, tree Device) error {
		damage = verity.Verify(root, tree, hash)
		return nil
	})

	switch {
	case err != nil:
		return err
	case damage != nil:
		u.Log.Warn("the other slot is damaged", zap.Error(damage))
		return u.esp.Remove(bootentry.Dir + "/" + find(v, v.Journal.Target.RootHash).File)
	}

	u.filled = true
	return nil
}

// finish removes the records of the upgrade, whether it is done or abandoned.
func (u *Upgrader) finish(v View) error {
	if v.Running == v.Journal.Target && v.Journal.Drill == nil {
		u.renewBoot(v)
		raiseErr := u.floor().raise(v.Running.RootHash, v.Journal.Epoch, v.Holds)
		if err := errors.Join(raiseErr, u.hold(*v.Journal)); err != nil {
			return err
		}
	}

	// The journal is removed last: while it is there, all of this is done
	// again.
	for _, name := range []string{scratchName, indexName, journalName} {
		if err := u.Records.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// hold keeps a system from coming back by itself after an operator has rolled
// it back.
func (u *Upgrader) hold(j Journal) error {
	if !j.Rollback {
		return nil
	}
	return recordFailure(u.Records, Failure{
		Version:  j.From.Version,
		RootHash: j.From.RootHash,
		Reason:   RolledBack,
		At:       u.Now().UTC(),
	})
}

// RolledBack is the reason of a [Failure] that is none: an operator did not want
// the system.
const RolledBack = "an operator has gone back"

// recordFailure records that the target must not be tried again.
func (u *Upgrader) recordFailure(ctx context.Context, j Journal, reason string) error {
	f := Failure{
		Version:  j.Target.Version,
		RootHash: j.Target.RootHash,
		Reason:   reason,
		At:       u.Now().UTC(),
	}
	f.Evidence = u.Node.Evidence(ctx, j)
	if err := ctx.Err(); err != nil { // The next start may find more.
		return err
	}
	return recordFailure(u.Records, f)
}

// mark writes into the partition table what the target slot holds.
func (u *Upgrader) mark(kind OpKind, v View) error {
	table, slot, err := u.Disk.target(u.Boot.Running)
	if err != nil {
		return err
	}

	j := v.Journal
	table.Source = gpt.Source{Used: gpt.Primary}

	if kind == Empty {
		// If this failed when the running system proved itself, the recovery
		// entry still starts the system that is about to be emptied.
		if err := u.renewRecovery(v); err != nil {
			u.Log.Warn("renew the recovery entry", zap.Error(err))
		}
		j.Replaces = v.Holds
		if err := records.Save(u.Records, journalName, j); err != nil {
			return err
		}
		return slot.Empty(table, u.Disk.Arch).Write(u.Disk.Whole)
	}

	hash, err := verity.ParseRootHash(j.Target.RootHash)
	if err != nil {
		return err
	}

	signed, err := u.sign(table, slot)
	if err != nil {
		u.Log.Warn("the signature of the root hash", zap.Error(err))
	}

	label := u.Boot.ImageID + "_" + j.Target.Version
	return slot.Seal(table, u.Disk.Arch, hash, label, signed).Write(u.Disk.Whole)
}

// sign writes the signature of the target's root hash beside it, if the release
// has one and the disk has room for it. Nothing on the node needs the
// signature, but systemd's tools do: a failure says nothing against the target.
func (u *Upgrader) sign(table gpt.Table, slot partitions.Slot) (signed bool, err error) {
	idx, err := index(u.Records)
	if err != nil || idx.Signature == nil || slot.Sig == 0 {
		return false, err
	}

	content, err := idx.Signature.Encode()
	if err == nil {
		err = u.Disk.with(table.Partition(slot.Sig), func(d Device) error {
			_, err := d.WriteAt(content, 0)
			return errors.Join(err, d.Sync())
		})
	}

	return err == nil, err
}

// fillSlot fills the target slot as the index says, from this machine first and
// then from the sources, and verifies it against the root hash.
func (u *Upgrader) fillSlot(ctx context.Context, j Journal, from fill.Sources) error {
	idx, err := index(u.Records)
	if err != nil {
		return err
	}

	if idx.RootHash != j.Target.RootHash {
		return hint.With(
			fmt.Errorf(
				"the index is about %.12s, the journal about %.12s",
				idx.RootHash, j.Target.RootHash,
			),
			"ask for the upgrade again",
		)
	}

	hash, err := verity.ParseRootHash(idx.RootHash)
	if err != nil {
		return err
	}

	table, slot, err := u.Disk.target(u.Boot.Running)
	if err != nil {
		return err
	}

	running, _, err := u.Disk.slots(table, u.Boot.Running)
	if err != nil {
		return err
	}

	locals, done, err := u.Disk.locals(table, running)
	defer done()
	var own fill.Contents
	if err != nil { // Then it needs another system.
		u.Log.Warn("read the running system", zap.Error(err))
	} else {
		own = fill.Contents{
			RootHash: u.Boot.Running.RootHash,
			Root:     locals[0].Digests(),
			Verity:   locals[1].Digests(),
		}
	}

	had, err := fill.Exchange(u.Records, j.Replaces, own)
	if err != nil { // The slot can be read instead.
		u.Log.Warn("what the other slot holds", zap.Error(err))
	}

	err = u.Disk.withSlot(table, slot, func(root, tree Device) error {
		s := system{
			root:  root,
			tree:  tree,
			hash:  hash,
			index: idx,
		}
		err := u.fillAndVerify(ctx, s, had, locals, from)
		if had.RootHash != "" && errors.Is(err, errNotVerified) {
			u.Log.Warn("the other slot did not hold what it was to", zap.Error(err))
			err = u.fillAndVerify(ctx, s, fill.Contents{}, locals, from)
		}
		return err
	})

	u.filled = err == nil
	return err
}

// system is what a slot has to hold.
type system struct {
	root, tree Device
	hash       [32]byte
	index      bundle.Index
}

// errNotVerified says that a slot does not hold what its root hash says.
var errNotVerified = errors.New("the slot does not verify")

// fillAndVerify fills a slot and verifies it. had is what the slot is known to
// hold, empty if that is not known.
func (u *Upgrader) fillAndVerify(
	ctx context.Context, s system, had fill.Contents, locals []fill.Local, from fill.Sources,
) error {
	root := fill.Job{
		Target:  s.root,
		Part:    s.index.Root,
		Known:   had.Root,
		Locals:  locals,
		Sources: from,
	}
	if err := u.fill(ctx, "root", root); err != nil {
		return err
	}

	tree := fill.Job{
		Target:  s.tree,
		Part:    s.index.Verity,
		Known:   had.Verity,
		Locals:  locals,
		Sources: from,
	}
	if err := u.fill(ctx, "verity", tree); err != nil {
		return err
	}

	err := errors.Join(fill.Verify(s.tree, s.index.Verity), verity.Verify(s.root, s.tree, s.hash))
	if err != nil {
		return fmt.Errorf("%w: %w", errNotVerified, err)
	}

	return nil
}

func (u *Upgrader) fill(ctx context.Context, name string, job fill.Job) error {
	if u.Listener != nil {
		job.Progress = func(done fill.Stats) {
			u.Listener.Progress(Progress{Part: name, Size: job.Part.Size, Stats: done})
		}
	}
	if err := job.Run(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// stageUKI assembles the UKI in a file of the state partition, so that it can
// resume after a cut, and then writes it to the ESP, where no entry names it
// yet.
func (u *Upgrader) stageUKI(ctx context.Context, v View, from fill.Sources) error {
	idx, err := index(u.Records)
	if err != nil {
		return err
	}
	file, err := u.Records.Scratch(idx.UKI.Size)
	if err != nil {
		return err
	}
	return errors.Join(u.stageFrom(ctx, file, v, idx, from), file.Close())
}

func (u *Upgrader) stageFrom(
	ctx context.Context, file Device, v View, idx bundle.Index, from fill.Sources,
) error {
	if err := u.esp.Reclaim(); err != nil { // An earlier try may have left clusters.
		return err
	}

	job := fill.Job{
		Target:  file,
		Part:    idx.UKI,
		Locals:  u.esp.locals(v.Entries),
		Sources: from,
	}
	if err := u.fill(ctx, "uki", job); err != nil {
		return err
	}

	uki := io.NewSectionReader(file, 0, idx.UKI.Size)
	if err := errors.Join(fill.Verify(file, idx.UKI), checkUKI(uki, idx)); err != nil {
		return err
	}

	return u.esp.stage(uki, idx.UKI.Size)
}
