package upgrade

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
)

// slotWriter writes the slot that does not run: its content, and its marks in
// the partition table.
type slotWriter struct {
	disk    Disk
	boot    Boot
	records Records
	log     *zap.Logger
}

// verify reads a target that was in the slot before. damage says why the slot
// does not hold it.
func (w slotWriter) verify(target System) (damage, err error) {
	table, slot, err := w.disk.target(w.boot.Running)
	if err != nil {
		return nil, err
	}

	hash, err := verity.ParseRootHash(target.RootHash)
	if err != nil {
		return nil, err
	}

	err = w.disk.withSlot(table, slot, func(root, tree Device) error {
		damage = verity.Verify(root, tree, hash)
		return nil
	})
	return damage, err
}

// empty marks the slot as empty.
func (w slotWriter) empty() error {
	table, slot, err := w.disk.target(w.boot.Running)
	if err != nil {
		return err
	}
	table.Source = gpt.Source{Used: gpt.Primary}
	return slot.Empty(table, w.disk.Arch).Write(w.disk.Whole)
}

// seal marks the slot as holding the target.
func (w slotWriter) seal(target System) error {
	table, slot, err := w.disk.target(w.boot.Running)
	if err != nil {
		return err
	}

	hash, err := verity.ParseRootHash(target.RootHash)
	if err != nil {
		return err
	}

	signed, err := w.sign(table, slot)
	if err != nil {
		w.log.Warn("the signature of the root hash", zap.Error(err))
	}

	table.Source = gpt.Source{Used: gpt.Primary}
	label := w.boot.ImageID + "_" + target.Version
	return slot.Seal(table, w.disk.Arch, hash, label, signed).Write(w.disk.Whole)
}

// sign writes the signature of the target's root hash beside it, if the release
// has one and the disk has room for it. Nothing on the node needs the
// signature, but systemd's tools do: a failure says nothing against the target.
func (w slotWriter) sign(table gpt.Table, slot partitions.Slot) (signed bool, err error) {
	idx, err := ReadIndex(w.records)
	if err != nil || idx.Signature == nil || slot.Sig == 0 {
		return false, err
	}

	content, err := idx.Signature.Encode()
	if err != nil {
		return false, err
	}

	err = w.disk.with(table.Partition(slot.Sig), func(d Device) error {
		_, err := d.WriteAt(content, 0)
		return errors.Join(err, d.Sync())
	})
	return err == nil, err
}

// fill fills the slot as the index of the upgrade says, and verifies it against
// the root hash.
func (w slotWriter) fill(ctx context.Context, j Journal, from fetcher) error {
	idx, err := ReadIndex(w.records)
	if err != nil {
		return err
	}

	if idx.RootHash != j.Target.RootHash {
		return hint.With(
			fmt.Errorf("the index is about %.12s, the journal about %.12s",
				idx.RootHash, j.Target.RootHash),
			"ask for the upgrade again",
		)
	}

	hash, err := verity.ParseRootHash(idx.RootHash)
	if err != nil {
		return err
	}

	table, slot, err := w.disk.target(w.boot.Running)
	if err != nil {
		return err
	}

	running, _, err := w.disk.slots(table, w.boot.Running)
	if err != nil {
		return err
	}

	locals, own, done := w.runningContents(table, running)
	defer done()

	had, err := fill.Exchange(w.records, j.Replaces, own)
	if err != nil { // The slot can be read instead.
		w.log.Warn("what the other slot holds", zap.Error(err))
	}

	return w.disk.withSlot(table, slot, func(root, tree Device) error {
		s := system{
			root:  root,
			tree:  tree,
			hash:  hash,
			index: idx,
		}

		err := from.system(ctx, s, had, locals)
		if had.RootHash != "" && errors.Is(err, errNotVerified) {
			w.log.Warn("the other slot did not hold what it was to", zap.Error(err))
			err = from.system(ctx, s, fill.Contents{}, locals)
		}
		return err
	})
}

// runningContents returns the chunks of the running slot, which can be read
// until done is called, and their digests. Without them the upgrade fetches
// more.
func (w slotWriter) runningContents(
	table gpt.Table, running partitions.Slot,
) (locals []fill.Local, own fill.Contents, done func()) {
	locals, done, err := w.disk.locals(table, running)
	if err != nil {
		w.log.Warn("read the running system", zap.Error(err))
		return locals, fill.Contents{}, done
	}

	return locals, fill.Contents{
		RootHash: w.boot.Running.RootHash,
		Root:     locals[0].Digests(),
		Verity:   locals[1].Digests(),
	}, done
}
