package disk

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/device"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
)

// OtherSlot is the slot that does not run: its content, and its marks in the
// partition table. Root hashes are 64 hex digits.
type OtherSlot struct {
	Disk Disk
	// Running is the root hash of the running system.
	Running string
	// Records has what is known of the content of the slots.
	Records records.Store
	Log     *zap.Logger
}

// Holds returns the root hash of the system that the slot is marked to hold, ""
// if none.
func (s OtherSlot) Holds() (string, error) {
	table, slot, err := s.Disk.target(s.Running)
	if err != nil {
		return "", err
	}

	hash, complete := slot.Holds(table, s.Disk.Arch)
	if !complete {
		return "", nil
	}
	return hex.EncodeToString(hash[:]), nil
}

// Version returns the version of the system in the slot, from an image of that
// ID; "" if the slot holds no system or cannot be read.
func (s OtherSlot) Version(imageID string) string {
	table, err := s.Disk.table()
	if err != nil {
		return ""
	}

	_, slot, err := s.Disk.slots(table, s.Running)
	if err != nil {
		return ""
	}
	if _, complete := slot.Holds(table, s.Disk.Arch); !complete {
		return ""
	}

	_, version, _ := strings.Cut(table.Partition(slot.Root).Label, imageID+"_")
	return version
}

// Size returns the sizes of the partitions of the slot, in bytes.
func (s OtherSlot) Size() (root, tree int64, err error) {
	table, slot, err := s.Disk.target(s.Running)
	if err != nil {
		return 0, 0, err
	}
	return table.Partition(slot.Root).Size, table.Partition(slot.Verity).Size, nil
}

// Verify reads the system of a root hash, which was in the slot before. damage
// says why the slot does not hold it.
func (s OtherSlot) Verify(rootHash string) (damage, err error) {
	table, slot, err := s.Disk.target(s.Running)
	if err != nil {
		return nil, err
	}

	hash, err := verity.ParseRootHash(rootHash)
	if err != nil {
		return nil, err
	}

	err = s.Disk.withSlot(table, slot, func(root, tree device.Device) error {
		damage = verity.Verify(root, tree, hash)
		return nil
	})
	return damage, err
}

// Empty marks the slot as empty: with the label _empty, and systemd's type for
// partial partitions.
func (s OtherSlot) Empty() error {
	table, slot, err := s.Disk.targetToMark(s.Running)
	if err != nil {
		return err
	}
	table.Source = gpt.Source{Used: gpt.Primary}
	return slot.Empty(table, s.Disk.Arch).Write(s.Disk.Whole)
}

// Seal marks the slot as holding the system of a root hash, under a label for
// its partitions. signature is nil if the root hash is not signed.
func (s OtherSlot) Seal(rootHash, label string, signature *verity.Signature) error {
	table, slot, err := s.Disk.targetToMark(s.Running)
	if err != nil {
		return err
	}

	hash, err := verity.ParseRootHash(rootHash)
	if err != nil {
		return err
	}

	signed, err := s.sign(table, slot, signature)
	if err != nil {
		s.Log.Warn("the signature of the root hash", zap.Error(err))
	}

	table.Source = gpt.Source{Used: gpt.Primary}
	return slot.Seal(table, s.Disk.Arch, hash, label, signed).Write(s.Disk.Whole)
}

// sign writes the signature of the root hash beside it, if there is one and the
// disk has room for it.
func (s OtherSlot) sign(
	table gpt.Table, slot partitions.Slot, signature *verity.Signature,
) (signed bool, err error) {
	if signature == nil || slot.Sig == 0 {
		return false, nil
	}

	content, err := signature.Encode()
	if err != nil {
		return false, err
	}

	err = s.Disk.with(table.Partition(slot.Sig), func(d device.Device) error {
		_, err := d.WriteAt(content, 0)
		return errors.Join(err, d.Sync())
	})
	return err == nil, err
}

// Fill fills the slot with the system of an index, and verifies it against the
// root hash. replaced is the root hash of the system that the slot held, "" if
// none is known.
func (s OtherSlot) Fill(
	ctx context.Context, idx bundle.Index, replaced string, from Fetcher,
) error {
	hash, err := verity.ParseRootHash(idx.RootHash)
	if err != nil {
		return err
	}

	table, slot, err := s.Disk.target(s.Running)
	if err != nil {
		return err
	}

	running, _, err := s.Disk.slots(table, s.Running)
	if err != nil {
		return err
	}

	locals, own, done := s.runningContents(table, running)
	defer done()

	had, err := fill.Exchange(s.Records, replaced, own)
	if err != nil { // The slot can be read instead.
		s.Log.Warn("what the other slot holds", zap.Error(err))
	}

	return s.Disk.withSlot(table, slot, func(root, tree device.Device) error {
		target := system{
			root:  root,
			tree:  tree,
			hash:  hash,
			index: idx,
		}

		err := from.system(ctx, target, had, locals)
		if had.RootHash != "" && errors.Is(err, errNotVerified) {
			s.Log.Warn("the other slot did not hold what it was to", zap.Error(err))
			err = from.system(ctx, target, fill.Contents{}, locals)
		}
		return err
	})
}

// runningContents returns the chunks of the running slot, which can be read
// until done is called, and their digests. Without them the upgrade fetches
// more.
func (s OtherSlot) runningContents(
	table gpt.Table, running partitions.Slot,
) (locals []fill.Local, own fill.Contents, done func()) {
	locals, done, err := s.Disk.locals(table, running)
	if err != nil {
		s.Log.Warn("read the running system", zap.Error(err))
		return locals, fill.Contents{}, done
	}

	return locals, fill.Contents{
		RootHash: s.Running,
		Root:     locals[0].Digests(),
		Verity:   locals[1].Digests(),
	}, done
}
