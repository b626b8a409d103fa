package flash

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/ext4"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
)

// Extent is a part of an image, in bytes. Both are multiples of align.
type Extent struct{ Off, Len int64 }

// align suits the sectors of every disk, and direct I/O.
const align = 4096

// blank is how many bytes at the start of a partition must be zero for the node
// to treat it as empty (agent/boot).
const blank = 1 << 20

// Image is a disk image: its partition table, and the extents to write.
type Image struct {
	Table   gpt.Table
	Extents []Extent
}

// Bytes returns how many bytes are written.
func (im Image) Bytes() (n int64) {
	for _, e := range im.Extents {
		n += e.Len
	}
	return n
}

// Look finds the extents of an image that must be on a disk, whatever the disk
// held before: the partition tables, the content of files on the ESP, the
// systems in slots, the zeros that mark a partition as empty, and everything in
// partitions of other types. Free space is not written, which saves time.
func Look(r io.ReaderAt, size int64) (Image, error) {
	table, err := gpt.Find(r, size)
	if fault.Of(err) == fault.Failed { // and not an error of the disk that it is read from
		return Image{}, fault.With(err, fault.NotAnImage)
	}
	if err != nil {
		return Image{}, err
	}

	if err := table.Source.Fault(); err != nil {
		return Image{}, fmt.Errorf("the image is damaged: %w", err)
	}

	if table.DiskSize%align != 0 || table.DiskSize < blockSize {
		return Image{}, fmt.Errorf("the image is of a disk of %d bytes: not whole blocks of %d, "+
			"or less than %d", table.DiskSize, align, blockSize)
	}

	// The file may be longer than the disk in its table: see gpt.Table.Grow.
	all := []Extent{{0, gpt.Alignment}, {table.DiskSize - gpt.Alignment, gpt.Alignment}}
	for _, p := range table.Partitions {
		part := io.NewSectionReader(r, p.Start, p.Size)
		var used []Extent
		switch role := partitions.RoleOf(p.Type); {
		case partitions.HasLoader(p):
			used, err = usedOfESP(part, table.SectorSize)
		case role == partitions.RootVerity:
			used, err = usedOfSlot(part, p, table)
		case role == partitions.Root &&
			(p.Label == partitions.EmptyLabel || inSlot(table, partitions.RootVerity, p) >= 0):
			// with its hash tree
			continue
		case role == partitions.RootVeritySig:
			used = []Extent{{0, min(blank, p.Size)}}
		case role == partitions.State:
			used, err = usedOfState(part)
		default: // Loam does not know the type: write all of it.
			used = []Extent{{0, p.Size}}
		}

		if err != nil {
			return Image{}, fmt.Errorf("partition %d of the image: %w", p.Index, err)
		}

		for _, e := range used {
			all = append(all, Extent{p.Start + e.Off, e.Len})
		}
	}

	return Image{table, join(all)}, nil
}

func usedOfESP(part *io.SectionReader, sectorSize int) (all []Extent, err error) {
	esp, err := fat.Open(fat.ReadOnly(part), part.Size(), sectorSize)
	if err != nil {
		return nil, err
	}
	for off, n := range esp.Used() {
		all = append(all, Extent{off, n})
	}
	return all, nil
}

// usedOfSlot returns the hash tree in a verity partition and, relative to the
// tree, the root file system that it covers. It returns nothing for a free
// slot.
func usedOfSlot(part *io.SectionReader, tree gpt.Partition, table gpt.Table) ([]Extent, error) {
	if tree.Label == partitions.EmptyLabel {
		return nil, nil
	}

	sb, err := verity.ReadSuperblock(part)
	if err != nil {
		return nil, err
	}

	at := inSlot(table, partitions.Root, tree)
	if at < 0 {
		return nil, errors.New("no root for its hash tree")
	}

	root := table.Partitions[at]
	hashes := verity.HashSize(sb.DataBlocks)
	data := sb.DataBlocks * verity.BlockSize
	if hashes > tree.Size || data > root.Size {
		return nil, fmt.Errorf(
			"a hash tree of %d bytes for %d of root: more than their partitions have",
			hashes, data,
		)
	}

	return []Extent{{0, hashes}, {root.Start - tree.Start, data}}, nil
}

// inSlot returns the index in the table of the partition with a role that is in
// the same slot as another partition, -1 if the slot has no such partition. It
// has the same label and is the nearest, because both slots may hold systems of
// one version.
func inSlot(table gpt.Table, role partitions.Role, with gpt.Partition) int {
	at := -1
	least := table.DiskSize
	for i, p := range table.Partitions {
		away := max(p.Start-with.Start, with.Start-p.Start)
		if partitions.RoleOf(p.Type) == role && p.Label == with.Label && away < least {
			at = i
			least = away
		}
	}
	return at
}

// usedOfState returns the start of a state partition that a node will format,
// or all of a state partition that a node has used.
func usedOfState(part *io.SectionReader) ([]Extent, error) {
	start := make([]byte, min(blank, part.Size()))
	if _, err := part.ReadAt(start, 0); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(start, []byte(ext4.FormatMark)) || len(bytes.Trim(start, "\x00")) == 0 {
		return []Extent{{0, int64(len(start))}}, nil
	}
	return []Extent{{0, part.Size()}}, nil
}

// join sorts extents, rounds them to align, and merges those that touch.
func join(all []Extent) (joined []Extent) {
	slices.SortFunc(all, func(a, b Extent) int { return int(a.Off>>9) - int(b.Off>>9) })
	for _, e := range all {
		end := (e.Off + e.Len + align - 1) / align * align
		e.Off = e.Off / align * align
		if n := len(joined); n > 0 && e.Off <= joined[n-1].Off+joined[n-1].Len {
			joined[n-1].Len = max(joined[n-1].Len, end-joined[n-1].Off)
			continue
		}
		joined = append(joined, Extent{e.Off, end - e.Off})
	}
	return joined
}
