package partitions

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/loam-os/loam/partitions/gpt"
)

// Params are what the layout of a disk depends on besides the definitions.
type Params struct {
	Arch       string // "amd64" or "arm64"
	RootHash   [32]byte
	ImageID    string
	Version    string
	DiskSize   int64 // bytes; 0: as small as the definitions allow
	SectorSize int   // bytes: 512 or 4096
}

// Label is the label of a slot in use: ImageID_Version.
func (p Params) Label() string { return p.ImageID + "_" + p.Version }

// Place decides the partition table. Partitions follow one another from 1 MiB
// on, in the order of the definitions; the state partition, if it is the last,
// takes the rest. UUIDs follow from the root hash: in the used slot as the DPS
// says, elsewhere as RFC 9562 version 8. So two builds of one root have the
// same table.
func Place(defs []Definition, p Params) (gpt.Table, error) {
	t := gpt.Table{DiskGUID: derive(p.RootHash, "disk"), SectorSize: p.SectorSize}
	start := int64(gpt.Alignment)
	for i, d := range defs {
		part, err := p.partition(d, i+1, start)
		if err != nil {
			return gpt.Table{}, fmt.Errorf("place %s: %w", d.File, err)
		}
		t.Partitions = append(t.Partitions, part)
		start = part.End()
	}

	t.DiskSize = start + gpt.Alignment // the backup table takes the last 33 or 5 sectors
	if p.DiskSize != 0 && p.DiskSize < t.DiskSize {
		return gpt.Table{}, fmt.Errorf("place partitions: disk of %d bytes: want %d or more",
			p.DiskSize, t.DiskSize)
	}

	t, _ = t.Grow(p.DiskSize)
	if err := t.Validate(); err != nil {
		return gpt.Table{}, fmt.Errorf("place partitions: %w", err)
	}

	return t, nil
}

// partition places one definition at start, with its least size.
func (p Params) partition(d Definition, index int, start int64) (gpt.Partition, error) {
	part := gpt.Partition{
		Index:      index,
		Type:       TypeUUID(d.Role, p.Arch),
		Start:      start,
		Size:       d.SizeMin,
		Attributes: attributes(d),
	}
	if part.Type == uuid.Nil {
		return part, fmt.Errorf("type %s on architecture %q: not known", d.Role, p.Arch)
	}

	if strings.Contains(d.Label, "%M_%A") && (p.ImageID == "" || p.Version == "") {
		return part, fmt.Errorf("label %s: image ID %q or version %q is empty",
			d.Label, p.ImageID, p.Version)
	}

	part.Label = strings.NewReplacer("%M", p.ImageID, "%A", p.Version).Replace(d.Label)
	part.UUID = slotUUID(d.Role, p.RootHash)
	if part.Label == EmptyLabel || d.Role == ESP || d.Role == State {
		part.UUID = derive(p.RootHash, d.File)
	}

	return part, nil
}

func attributes(d Definition) (bits uint64) {
	if d.ReadOnly {
		bits |= gpt.ReadOnly
	}
	if d.NoAuto {
		bits |= gpt.NoAuto
	}
	if d.GrowFileSystem {
		bits |= gpt.GrowFS
	}
	return bits
}

// derive makes a UUID from root hash and purpose: SHA-256, cut to 128 bits,
// with the bits of RFC 9562 version 8 (custom).
func derive(rootHash [32]byte, purpose string) uuid.UUID {
	sum := sha256.Sum256(append(rootHash[:], purpose...))
	u := uuid.UUID(sum[:16])
	u[6] = u[6]&0x0f | derived<<4
	u[8] = u[8]&0x3f | 0x80
	return u
}

// derived is the version of UUIDs that derive makes.
const derived = 8
