package partitions

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/loam-os/loam/partitions/gpt"
)

// Slot is the room for one system: a root partition, its verity partition, and
// one for the signature of its root hash. Indexes are the partitions' numbers.
type Slot struct {
	Name         string // "a" or "b", in the order of the disk
	Root, Verity int
	Sig          int // 0 on disks without
}

// Slots returns the two slots of a disk, whether they hold a system or not.
func Slots(t gpt.Table, arch string) ([2]Slot, error) {
	roots := ofRole(t, Root, arch)
	verities := ofRole(t, RootVerity, arch)
	if len(roots) != 2 || len(verities) != 2 {
		return [2]Slot{}, fmt.Errorf(
			"slots: %d root and %d verity partitions for %s, want 2 of each",
			len(roots), len(verities), arch,
		)
	}

	slots := [2]Slot{{"a", roots[0], verities[0], 0}, {"b", roots[1], verities[1], 0}}
	if sigs := ofRole(t, RootVeritySig, arch); len(sigs) == 2 {
		slots[0].Sig = sigs[0]
		slots[1].Sig = sigs[1]
	}

	return slots, nil
}

// ofRole are the numbers of the partitions of a role, complete or partial, in
// the order of the disk.
func ofRole(t gpt.Table, role Role, arch string) (indexes []int) {
	kind := TypeUUID(role, arch)
	byStart := slices.SortedFunc(slices.Values(t.Partitions), func(a, b gpt.Partition) int {
		return int(a.Start>>9) - int(b.Start>>9)
	})
	for _, p := range byStart {
		if kind != uuid.Nil && (p.Type == kind || p.Type == PartialType(kind)) {
			indexes = append(indexes, p.Index)
		}
	}
	return indexes
}

// PartialType is the type of a partition while it is written, before it gets
// the type kind. systemd's tools from version 260 on ignore the partition
// because of it, older ones because of its label (systemd pull request 40718;
// sd_id128_get_app_specific(3)).
func PartialType(kind uuid.UUID) uuid.UUID {
	app := uuid.UUID{
		0xac, 0xcf, 0xa0, 0xc2, 0xda, 0x24, 0x46, 0x0a,
		0x9f, 0xc9, 0x0b, 0xb8, 0xfc, 0x78, 0x52, 0x19,
	}

	mac := hmac.New(sha256.New, kind[:])
	mac.Write(app[:])
	u := uuid.UUID(mac.Sum(nil)[:16])
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80

	return u
}

// Holds returns the root hash that the UUIDs of a slot's partitions spell, and
// whether both are marked as complete. Only a boot that maps the slot proves
// it.
func (s Slot) Holds(t gpt.Table, arch string) (hash [32]byte, whole bool) {
	root := t.Partition(s.Root)
	ver := t.Partition(s.Verity)
	copy(hash[:16], root.UUID[:])
	copy(hash[16:], ver.UUID[:])
	whole = root.Type == TypeUUID(Root, arch) && ver.Type == TypeUUID(RootVerity, arch) &&
		root.Label != EmptyLabel && ver.Label != EmptyLabel

	return hash, whole
}

// Empty is the table with the slot marked as holding nothing: whatever looks
// for systems leaves it alone.
func (s Slot) Empty(t gpt.Table, arch string) gpt.Table {
	return s.edit(t, func(p *gpt.Partition, role Role) { s.empty(t, p, arch, role) })
}

// empty marks one partition. The slot's name tells the UUIDs of one disk's
// empty slots apart.
func (s Slot) empty(t gpt.Table, p *gpt.Partition, arch string, role Role) {
	p.Type = PartialType(TypeUUID(role, arch))
	p.Label = EmptyLabel
	p.Attributes = gpt.ReadOnly | gpt.NoAuto
	p.UUID = derive([32]byte(slices.Concat(t.DiskGUID[:], t.DiskGUID[:])),
		"empty "+s.Name+" "+string(role))
}

// Seal is the table with the slot marked as holding the system of that root
// hash, and its signature if it is signed.
func (s Slot) Seal(
	t gpt.Table, arch string, rootHash [32]byte, label string, signed bool,
) gpt.Table {
	return s.edit(t, func(p *gpt.Partition, role Role) {
		if role == RootVeritySig && !signed {
			s.empty(t, p, arch, role)
			// It is free, not being written: systemd-repart would make another.
			p.Type = TypeUUID(role, arch)
			return
		}

		p.Type = TypeUUID(role, arch)
		p.Label = label
		p.Attributes = gpt.ReadOnly
		p.UUID = slotUUID(role, rootHash)
	})
}

// slotUUID is the UUID of a partition in a slot that holds a system.
func slotUUID(role Role, rootHash [32]byte) uuid.UUID {
	switch role {
	case Root:
		return RootUUID(rootHash)
	case RootVerity:
		return VerityUUID(rootHash)
	}
	return SigUUID(rootHash)
}

func (s Slot) edit(t gpt.Table, edit func(p *gpt.Partition, role Role)) gpt.Table {
	t.Partitions = slices.Clone(t.Partitions)
	for i := range t.Partitions {
		switch p := &t.Partitions[i]; p.Index {
		case s.Root:
			edit(p, Root)
		case s.Verity:
			edit(p, RootVerity)
		case s.Sig:
			edit(p, RootVeritySig)
		}
	}
	return t
}
