package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
)

// do does one op.
func (u *Upgrader) do(ctx context.Context, v View, op Op, from fill.Sources) error {
	switch op.Kind {
	case Drop:
		return u.esp.Remove(fat.BootDir + "/" + op.File)
	case Relink:
		if err := u.newTry(v.Journal); err != nil {
			return err
		}
		return u.esp.RelinkCounted(fat.BootDir, op.File, op.To)
	case Rename:
		if err := u.drills().rename(v.Journal, op.To); err != nil {
			return err
		}
		return u.esp.Rename(fat.BootDir, op.File, op.To, false)
	case Rest: // The loader would count what is at rest, too, in two sectors.
		if err := u.newTry(v.Journal); err != nil {
			return err
		}
		return u.esp.Rename(fat.BootDir, op.File, op.To, true)
	case Prove:
		return u.proveSlot(v)
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
		return u.remember(ctx, *v.Journal, op.Reason)
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

// arm notes how the node is, for the trial to be compared with.
func (u *Upgrader) arm(ctx context.Context, j Journal) error {
	j.Phase = Armed
	j.Boot = u.Boot.ID

	if j.Drill != nil {
		return records.Save(u.Records, journalName, j)
	}

	err := u.Node.HandOver(j.Target.Version, j.Back)
	if err != nil {
		return err
	}

	j.Baseline, err = baseline(ctx, u.Node.Health)
	if err != nil {
		return err
	}

	return records.Save(u.Records, journalName, j)
}

// renewBaseline renews the baseline of what is armed: it may have waited for
// days.
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

// link makes the entry, after which the loader is to start it.
func (u *Upgrader) link(name string, j Journal) error {
	if err := errors.Join(u.newTry(&j), u.drills().rename(&j, name)); err != nil {
		return err
	}
	return u.esp.link(name)
}

// newTry notes that the loader could not start the target before now.
func (u *Upgrader) newTry(j *Journal) error {
	if j == nil || j.Missed == 0 {
		return nil
	}
	j.Missed = 0
	return records.Save(u.Records, journalName, j)
}

// proveSlot makes sure of a target that has been there all along. One that is
// damaged is brought anew, if its index is there.
func (u *Upgrader) proveSlot(v View) error {
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
		return u.esp.Remove(fat.BootDir + "/" + find(v, v.Journal.Target.RootHash).File)
	}

	u.filled = true
	return nil
}

// finish takes the upgrade away, done or given up.
func (u *Upgrader) finish(v View) error {
	if v.Running == v.Journal.Target && v.Journal.Drill == nil {
		u.renewBoot(v)
		raiseErr := u.floor().raise(v.Running.RootHash, v.Journal.Epoch, v.Holds)
		if err := errors.Join(raiseErr, u.hold(*v.Journal)); err != nil {
			return err
		}
	}

	// The journal goes last: as long as it is there, this is done again.
	for _, name := range []string{scratchName, indexName, journalName} {
		if err := u.Records.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// hold has what a person has gone back from not come back by itself.
func (u *Upgrader) hold(j Journal) error {
	if !j.Back {
		return nil
	}
	return remember(u.Records, Failure{
		Version:  j.From.Version,
		RootHash: j.From.RootHash,
		Reason:   goneBack,
		At:       u.Now().UTC(),
	})
}

const goneBack = "somebody has gone back"

// remember notes that the target is not to be tried again.
func (u *Upgrader) remember(ctx context.Context, j Journal, reason string) error {
	f := Failure{
		Version:  j.Target.Version,
		RootHash: j.Target.RootHash,
		Reason:   reason,
		At:       u.Now().UTC(),
	}
	f.Evidence = u.Node.Evidence(ctx, j)
	if err := ctx.Err(); err != nil { // There may be more, at the next start.
		return err
	}
	return remember(u.Records, f)
}

// mark writes in the partition table what the target slot holds.
func (u *Upgrader) mark(kind OpKind, v View) error {
	table, slot, err := u.Disk.target(u.Boot.Running)
	if err != nil {
		return err
	}

	j := v.Journal
	table.Source = gpt.Source{Used: gpt.Primary}

	if kind == Empty {
		// If that failed when the running system had proven itself, it is still
		// of the system that goes.
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

// sign writes the signature of the target's root hash beside it, if it has one,
// and the disk a place for it. Nothing on the node needs it: systemd's tools
// do. So that it cannot is no reason against the target.
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

// fillSlot makes the target slot what the index says, from what this machine
// has and then from the pack, and proves it against the root hash.
func (u *Upgrader) fillSlot(ctx context.Context, j Journal, from fill.Sources) error {
	idx, err := index(u.Records)
	if err != nil {
		return err
	}

	if idx.RootHash != j.Target.RootHash {
		return fmt.Errorf("the index is about %.12s, the journal about %.12s\n"+
			"hint: ask for the upgrade again", idx.RootHash, j.Target.RootHash)
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
	if err != nil { // Another system is what it needs, then.
		u.Log.Warn("read the running system", zap.Error(err))
	} else {
		own = fill.Contents{
			RootHash: u.Boot.Running.RootHash,
			Root:     locals[0].Digests(),
			Verity:   locals[1].Digests(),
		}
	}

	had, err := fill.Exchange(u.Records, j.Replaces, own)
	if err != nil { // The slot tells as well.
		u.Log.Warn("what the other slot holds", zap.Error(err))
	}

	err = u.Disk.withSlot(table, slot, func(root, tree Device) error {
		s := system{
			root:  root,
			tree:  tree,
			hash:  hash,
			index: idx,
		}
		err := u.bring(ctx, s, had, locals, from)
		if had.RootHash != "" && errors.Is(err, errUnproven) {
			u.Log.Warn("the other slot did not hold what it was to", zap.Error(err))
			err = u.bring(ctx, s, fill.Contents{}, locals, from)
		}
		return err
	})

	u.filled = err == nil
	return err
}

// system is one that is to be in a slot.
type system struct {
	root, tree Device
	hash       [32]byte
	index      bundle.Index
}

// errUnproven is a slot that is not what its root hash says.
var errUnproven = errors.New("the slot does not prove itself")

// bring fills a slot, of which what it had is known or not, and proves it.
func (u *Upgrader) bring(
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

	err := errors.Join(fill.Prove(s.tree, s.index.Verity), verity.Verify(s.root, s.tree, s.hash))
	if err != nil {
		return fmt.Errorf("%w: %w", errUnproven, err)
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

// stageUKI makes the UKI in a file of the state partition, where it can go on
// after a cut, and writes it to the ESP, where no entry names it yet.
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
	if err := u.esp.Reclaim(); err != nil { // What an earlier try left.
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

	whole := io.NewSectionReader(file, 0, idx.UKI.Size)
	if err := errors.Join(fill.Prove(file, idx.UKI), checkUKI(whole, idx)); err != nil {
		return err
	}

	return u.esp.stage(whole, idx.UKI.Size)
}
