package boot

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/loam-os/loam/agent/cmdline"
	"github.com/loam-os/loam/agent/crypt"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/luks"
	"github.com/loam-os/loam/partitions/verity"
)

// Decision is how to boot: all that Init.Run needs to know.
type Decision struct {
	// Slot is "a" or "b": the first or second root partition of the disk;
	// "memory" if Memory.
	Slot     string `json:"slot"`
	RootHash string `json:"rootHash"`
	Disk     string `json:"disk"`

	// Unsure means that nothing proves that the machine was started from this
	// disk: another one that appears soon may be the right one.
	Unsure bool   `json:"unsure,omitempty"`
	Root   string `json:"root"`
	Verity string `json:"verity"`
	ESP    string `json:"esp,omitempty"`

	// Target is the dm-verity line; TargetLength is in sectors of 512 bytes.
	Target       string `json:"target"`
	TargetLength uint64 `json:"targetLength"`

	// VerityUUID names the mapping.
	VerityUUID uuid.UUID `json:"verityUUID"`
	State      State     `json:"state"`

	// Epoch is the security epoch of the system.
	Epoch int `json:"epoch,omitempty"`

	// OtherLoader means that the loader came from another disk.
	OtherLoader bool `json:"otherLoader,omitempty"`

	// Memory means that the system is in memory; without a state partition, so
	// is its state.
	Memory bool `json:"memory,omitempty"`

	// Trial means that the system is on trial; known once the state partition
	// is mounted.
	Trial bool `json:"trial,omitempty"`

	// Container is the partition with the container of the state, "" if the state
	// is not encrypted. Encryption says which key opened it, PCRKey which key must
	// have signed the system, and EncryptError why there is no container although
	// one was requested.
	Container    string     `json:"container,omitempty"`
	Encryption   crypt.Mode `json:"encryption,omitempty"`
	PCRKey       string     `json:"pcrKey,omitempty"`
	EncryptError string     `json:"encryptError,omitempty"`

	// recovery is the key slot of the recovery key of a new container.
	recovery *luks.Prepared

	// signedEpoch is the number in the TPM that only a key raises.
	signedEpoch int

	// Warnings are for the operator.
	Warnings []string `json:"warnings,omitempty"`
}

// State is what to do with the state partition before it is mounted.
type State struct {
	Device string `json:"device"`

	// Table is the partition table to write, grown to the disk or repaired; nil
	// to leave it. Old is the table that the disk has, and TableDamage the damage
	// of one of its copies, "" for none; both are for a Table.
	Table       *gpt.Table `json:"table,omitempty"`
	Old         *gpt.Table `json:"-"`
	TableDamage string     `json:"tableDamage,omitempty"`

	// Index is the partition's number. Start and Size are in bytes; Size is the
	// size after Table is written.
	Index int   `json:"index"`
	Start int64 `json:"start"`
	Size  int64 `json:"size"`

	// Mark may ask for a container, into which the file system goes. Locked is
	// a container that has to be opened before it is known what to do with the
	// file system in it.
	Mark   crypt.Mark `json:"mark,omitzero"`
	Locked bool       `json:"locked,omitempty"`

	// Repair asks for the repair of a corrupt superblock.
	Repair bool `json:"repair,omitempty"`

	// Format asks for a new file system, Grow for a file system as large as the
	// partition.
	Format bool `json:"format,omitempty"`
	Grow   bool `json:"grow,omitempty"`

	// Damage is why the partition is not mounted; nil if it is.
	Damage *Damage `json:"damage,omitempty"`

	// ESP is the UUID of the ESP, which the firmware's boot options are renewed
	// to if they have the UUID of the image, or OldESP, which it had before. Both
	// are the nil UUID once the disk has its identity.
	ESP    uuid.UUID `json:"esp,omitzero"`
	OldESP uuid.UUID `json:"oldESP,omitzero"`
}

// Damage is why the state partition cannot be used. The system then runs with
// its state in memory and repairs the partition (agent/repair).
type Damage struct {
	Reason string `json:"reason"`

	// Ext4 means that the partition has, or had, a file system that e2fsck may
	// repair. It must not change other data.
	Ext4 bool `json:"ext4,omitempty"`

	// Locked means that the partition has a container that is not open. Only an
	// operator knows whether what is in it is still needed.
	Locked bool `json:"locked,omitempty"`
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
// name what is missing. After ErrNotThere and ErrOtherDisk, the caller should
// wait for more disks.
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

	chosen, unsure, err := choose(found, f)
	if err != nil {
		return Decision{}, fmt.Errorf("root hash %x…: %w", hash[:6], err)
	}

	d := Decision{
		Slot:     chosen.slot,
		RootHash: hex.EncodeToString(hash[:]),
		Disk:     chosen.disk.Device,
		Unsure:   unsure,
		Epoch:    epochOf(f.Cmdline),
	}
	if copies := others(found, chosen); copies != "" {
		d.Warnings = append(d.Warnings, fmt.Sprintf("ignored the copy of the system on %s: "+
			"the machine was started from %s", copies, d.Disk))
	}
	if err := d.mapping(chosen, hash); err != nil {
		return Decision{}, err
	}

	if p, ok := byType(chosen.disk, partitions.TypeUUID(partitions.ESP, f.Arch)); ok {
		d.ESP = chosen.disk.Contents[p.Index].Device
		d.OtherLoader = f.LoaderPartition != uuid.Nil && f.LoaderPartition != p.UUID
	}

	d.State, err = state(chosen.disk, f)
	if err != nil {
		return Decision{}, fmt.Errorf("disk %s: %w", chosen.disk.Device, err)
	}

	if damage := chosen.disk.Damage; damage != "" && d.State.Table == nil {
		d.Warnings = append(d.Warnings, fmt.Sprintf("partition table of %s: %s", d.Disk, damage))
	}

	return d, nil
}

func rootHash(text string) (hash [32]byte, err error) {
	value, ok := cmdline.Parse(text).Get("roothash")
	if !ok {
		return hash, hint.With(errors.New("kernel command line has no roothash="),
			"the UKI carries it; was the kernel started without one?")
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
			out = append(out, candidate{
				disk:   d,
				slot:   slotOf(d.Table, f.Arch, root),
				root:   root,
				verity: ver,
			})
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
// is surely empty. A partition that is damaged, or has unknown content, stays as
// it is, and the state is in memory for this boot.
//
// The disk gets its own identity before its state partition is formatted, so
// the first boot that is not cut off completes both. A disk that an early version
// left without one gets it once its system has proven itself: no trial starts with
// a change that the way back would meet, too.
func state(d Disk, f Facts) (State, error) {
	p, ok := byType(d, partitions.TypeUUID(partitions.State, f.Arch))
	if !ok {
		return State{Damage: &Damage{Reason: "no state partition (type var)"}}, nil
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

	s.Damage = c.Damage()
	if s.Damage != nil {
		return s, nil
	}

	table, changed := d.Table.Grow(d.Size)
	isNew := c.Filesystem == FilesystemEmpty
	gets := partitions.Public(table.DiskGUID) && !d.ReadOnly && (isNew || !f.Counted)
	if gets {
		table = f.Identity.Give(table)
		changed = true
	}
	if esp, ok := byType(d, partitions.TypeUUID(partitions.ESP, f.Arch)); ok && (isNew || gets) {
		s.ESP = table.Partition(esp.Index).UUID
		if !isNew {
			s.OldESP = esp.UUID // Of the release that it was installed with.
		}
	}
	if (changed || d.Damage != "") && !d.ReadOnly {
		s.Table = &table
		s.Old = d.Table
		s.TableDamage = d.Damage
		s.Size = table.Partition(p.Index).Size
	}

	s.plan(c)
	return s, nil
}

// plan decides what to do with the content of the state partition, or of the
// container on it.
func (s *State) plan(c Content) {
	s.Damage = c.Damage()
	if s.Damage != nil {
		return
	}

	switch c.Filesystem {
	case FilesystemEmpty:
		s.Mark = c.Mark
		s.Format = true
		s.Grow = true
	case FilesystemLUKS:
		s.Locked = true
	case FilesystemExt4, FilesystemCorrupt:
		s.Repair = c.Filesystem == FilesystemCorrupt
		const slack = 1 << 20 // ext4 leaves a tail too short for a block group
		s.Grow = s.Size-c.FilesystemSize >= slack
	}
}

// Damage returns why a state partition must not be mounted, nil if it may be.
func (c Content) Damage() *Damage {
	switch c.Filesystem {
	case FilesystemEmpty:
		return nil
	case FilesystemLUKS:
		if c.Problem != "" {
			return &Damage{Reason: "its container cannot be opened: " + c.Problem, Locked: true}
		}
		return nil
	case FilesystemExt4, FilesystemCorrupt:
		switch {
		case c.Errors:
			return &Damage{
				Reason: "its file system has errors that are not repaired",
				Ext4:   true,
			}
		case c.NoJournal:
			return &Damage{Reason: "its file system has lost its journal", Ext4: true}
		}
		return nil
	case FilesystemDamaged:
		return &Damage{Reason: c.Problem, Ext4: true}
	}
	return &Damage{
		Reason: fmt.Sprintf("holds unknown data (%s)", cmp.Or(c.Problem, "unknown content")),
	}
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
