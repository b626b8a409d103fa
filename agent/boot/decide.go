package boot

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/loam-os/loam/agent/cmdline"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
)

// Decision is how to boot: all that Init.Run needs to know.
type Decision struct {
	// Slot is "a" or "b": the first or second root partition of the disk;
	// "memory" if Memory.
	Slot     string `json:"slot"`
	RootHash string `json:"rootHash"`
	Disk     string `json:"disk"`

	// Removable means that a fixed disk, if one appears, may be the better
	// choice.
	Removable bool   `json:"removable,omitempty"`
	Root      string `json:"root"`
	Verity    string `json:"verity"`
	ESP       string `json:"esp,omitempty"`

	// Target is the dm-verity line; TargetLength is in sectors of 512 bytes.
	Target       string `json:"target"`
	TargetLength uint64 `json:"targetLength"`

	// VerityUUID names the mapping.
	VerityUUID uuid.UUID `json:"verityUUID"`
	State      State     `json:"state"`

	// OtherLoader means that the loader came from another disk.
	OtherLoader bool `json:"otherLoader,omitempty"`

	// Memory means that the system is in memory; without a state partition, so
	// is its state.
	Memory bool `json:"memory,omitempty"`

	// Trial means that the system is on trial; known once the state partition
	// is mounted.
	Trial bool `json:"trial,omitempty"`

	// Warnings are for the operator.
	Warnings []string `json:"warnings,omitempty"`
}

// State is what to do with the state partition before it is mounted.
type State struct {
	Device string `json:"device"`

	// Table is the partition table to write, grown to the disk or repaired; nil
	// to leave it.
	Table *gpt.Table `json:"table,omitempty"`

	// Index is the partition's number. Start and Size are in bytes; Size is the
	// size after Table is written.
	Index int   `json:"index"`
	Start int64 `json:"start"`
	Size  int64 `json:"size"`

	// Mend asks for the repair of a corrupt superblock.
	Mend bool `json:"mend,omitempty"`

	// Format asks for a new file system, Grow for a file system as large as the
	// partition.
	Format bool `json:"format,omitempty"`
	Grow   bool `json:"grow,omitempty"`
}

// ErrNotThere says that no disk seen so far has the slot: more may appear.
var ErrNotThere = errors.New("no disk has the root and verity partition of this root hash")

// corruption makes the kernel restart the machine when a block does not match
// its hash. To continue, even with an I/O error, could run half of a system.
const corruption = " 1 restart_on_corruption"

// candidate is a slot that has the root hash of the command line.
type candidate struct {
	disk         Disk
	slot         string
	root, verity int
}

// Decide chooses the slot and says what to do with the state partition. Errors
// name what is missing. After ErrNotThere, the caller should wait for more
// disks.
func Decide(f Facts) (Decision, error) {
	hash, err := rootHash(f.Cmdline)
	if err != nil {
		return Decision{}, err
	}

	found := candidates(f, hash)
	if len(found) == 0 {
		return Decision{}, fmt.Errorf("root hash %x…: %w (%s)",
			hash[:6], ErrNotThere, seen(f.Disks))
	}

	chosen, warnings := choose(found, f.LoaderPartition)
	d := Decision{
		Slot:      chosen.slot,
		RootHash:  hex.EncodeToString(hash[:]),
		Disk:      chosen.disk.Device,
		Removable: chosen.disk.Removable,
		Warnings:  warnings,
	}
	if err := d.mapping(chosen, hash); err != nil {
		return Decision{}, err
	}

	if damage := chosen.disk.Damage; damage != "" {
		d.Warnings = append(d.Warnings,
			fmt.Sprintf("partition table of %s: %s; repaired", d.Disk, damage))
	}

	if p, ok := byType(chosen.disk, partitions.TypeUUID(partitions.ESP, f.Arch)); ok {
		d.ESP = chosen.disk.Contents[p.Index].Device
		d.OtherLoader = f.LoaderPartition != uuid.Nil && f.LoaderPartition != p.UUID
	}

	d.State, err = state(chosen.disk, partitions.TypeUUID(partitions.State, f.Arch))
	if err != nil {
		return Decision{}, fmt.Errorf("disk %s: %w", chosen.disk.Device, err)
	}

	return d, nil
}

func rootHash(text string) (hash [32]byte, err error) {
	value, ok := cmdline.Parse(text).Get("roothash")
	if !ok {
		return hash, errors.New("kernel command line has no roothash=\n" +
			"hint: the UKI carries it; was the kernel started without one?")
	}

	hash, err = verity.ParseRootHash(value)
	if err != nil {
		return hash, fmt.Errorf("kernel command line: %w", err)
	}

	return hash, nil
}

// candidates finds the slots by partition UUID (Discoverable Partitions
// Specification, "root hash"), never by label.
func candidates(f Facts, hash [32]byte) []candidate {
	var out []candidate
	for _, d := range f.Disks {
		if d.Table == nil {
			continue
		}
		root := byUUID(d.Table, partitions.RootUUID(hash))
		ver := byUUID(d.Table, partitions.VerityUUID(hash))
		if root != 0 && ver != 0 && d.Contents[root].Device != "" && d.Contents[ver].Device != "" {
			out = append(out, candidate{d, slotOf(d.Table, f.Arch, root), root, ver})
		}
	}
	return out
}

func byUUID(t *gpt.Table, id uuid.UUID) int {
	for _, p := range t.Partitions {
		if p.UUID == id {
			return p.Index
		}
	}
	return 0
}

// slotOf returns "a" for the first root partition of its disk and "b" for the
// second, whatever the other one holds. A disk without two slots has slot a.
func slotOf(t *gpt.Table, arch string, index int) string {
	slots, err := partitions.Slots(*t, arch)
	if err == nil && slots[1].Root == index {
		return slots[1].Name
	}
	return "a"
}

// choose prefers a disk whose verity tree can be read, then the disk that the
// loader came from, then a disk that is not removable: after flashing, the USB
// installer is often still plugged in. Disks flashed from one image are clones,
// and all look like the loader's.
func choose(found []candidate, loader uuid.UUID) (candidate, []string) {
	rank := func(c candidate) int {
		r := 0
		if c.disk.Contents[c.verity].Verity == nil {
			r += 4
		}
		if loader != uuid.Nil && byUUID(c.disk.Table, loader) == 0 {
			r += 2
		}
		if c.disk.Removable {
			r++
		}

		return r
	}

	slices.SortStableFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.disk.Device, b.disk.Device))
	})

	if len(found) == 1 {
		return found[0], nil
	}

	var names []string
	for _, c := range found {
		names = append(names, c.disk.Device)
	}

	return found[0], []string{fmt.Sprintf("%s carry the same system; running from %s",
		strings.Join(names, " and "), names[0])}
}

func (d *Decision) mapping(c candidate, hash [32]byte) error {
	root := c.disk.Contents[c.root]
	ver := c.disk.Contents[c.verity]
	if ver.Verity == nil {
		return fmt.Errorf("verity partition %s: %s",
			ver.Device, cmp.Or(ver.Problem, "no superblock"))
	}

	data := ver.Verity.DataBlocks * verity.BlockSize
	if size := c.disk.Table.Partition(c.root).Size; data > size {
		return fmt.Errorf("root partition %s: %d bytes, its verity tree covers %d",
			root.Device, size, data)
	}

	d.verified(root.Device, ver.Device, *ver.Verity, hash)
	return nil
}

// verified sets the mapping for a root file system and its hash tree.
func (d *Decision) verified(root, tree string, sb verity.Superblock, hash [32]byte) {
	d.Root = root
	d.Verity = tree
	d.VerityUUID = sb.UUID
	d.Target = sb.Table(root, tree, hash) + corruption
	d.TargetLength = uint64(sb.DataBlocks * verity.BlockSize / 512)
}

func byType(d Disk, kind uuid.UUID) (gpt.Partition, bool) {
	for _, p := range d.Table.Partitions {
		if p.Type == kind {
			return p, true
		}
	}
	return gpt.Partition{}, false
}

// state decides what to do with the state partition. It is formatted only if it
// is surely empty. Unknown content stops the boot, with an error that names it.
func state(d Disk, kind uuid.UUID) (State, error) {
	p, ok := byType(d, kind)
	if !ok {
		return State{}, errors.New("no state partition (type var)")
	}

	c := d.Contents[p.Index]
	if c.Device == "" {
		return State{}, fmt.Errorf("state partition %d: %w", p.Index, ErrNotThere)
	}

	s := State{
		Device: c.Device,
		Index:  p.Index,
		Start:  p.Start,
		Size:   p.Size,
	}

	if grown, changed := d.Table.Grow(d.Size); (changed || d.Damage != "") && !d.ReadOnly {
		s.Table = &grown
		s.Size = grown.Partition(p.Index).Size
	}

	switch c.Filesystem {
	case FilesystemEmpty:
		s.Format = true
		s.Grow = true
	case FilesystemExt4, FilesystemCorrupt:
		s.Mend = c.Filesystem == FilesystemCorrupt
		const slack = 1 << 20 // ext4 leaves a tail too short for a block group
		s.Grow = s.Size-c.FilesystemSize >= slack
	default:
		return State{}, fmt.Errorf("state partition %s: holds unknown data (%s)\n"+
			"hint: if nothing on it is needed, zero its first MiB from another system", c.Device,
			cmp.Or(c.Problem, "unknown content"))
	}

	return s, nil
}

// seen describes the disks for the error that says that no disk has the slot.
func seen(disks []Disk) string {
	if len(disks) == 0 {
		return "no disk at all: is its driver in the image?"
	}
	var out []string
	for _, d := range disks {
		what := "no partition table: " + d.Problem
		if d.Table != nil {
			what = fmt.Sprintf("%d partitions", len(d.Table.Partitions))
		}
		out = append(out, d.Device+": "+what)
	}
	return strings.Join(out, "; ")
}
