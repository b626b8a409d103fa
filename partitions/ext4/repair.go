package ext4

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/loam-os/loam/partitions/device"
)

// The superblock is two sectors of 512 bytes, and its checksum is in the
// second. ext4 trusts the disk to write both as one. A disk that does not may
// have, after a power cut, the first of one write and the second of another:
// then ext4 does not mount it, for no more than that checksum, as fields that a
// running system changes are each as good from either.

const sectorSize = 512

// fixed returns offset and length of the fields that no running system changes:
// they are equal in the first superblock and its copies.
func fixed() [][2]int {
	return [][2]int{
		{0x14, 16},                    // first block, sizes of block and cluster, blocks in a group
		{0x24, 8},                     // clusters and inodes in a group
		{offMagic, 2},                 //
		{0x4c, 4},                     // revision
		{0x54, 6},                     // first inode, size of inodes
		{offCompat, 4}, {offUUID, 32}, // and label
		{0xd0, 16}, // UUID of the journal
		// inode and device of the journal; version of hashes, size of group
		// descriptors
		{0xe0, 8}, {offHashSeed, 16}, {0xfc, 4},
		// flexible groups; inodes of quotas; seed of checksums
		{0x174, 4}, {0x240, 8}, {0x26c, 4}, {0x270, 4},
	}
}

const (
	offCompat         = 0x5c
	offIncompat       = 0x60
	offROCompat       = 0x64
	offBlocksPerGroup = 0x20

	recovers      = 0x4      // of incompat: the journal needs a replay
	orphanPresent = 0x1_0000 // of ro_compat
)

// Repaired returns the first superblock of r with a correct checksum, if a torn
// write explains the wrong one: all fields that a running system does not
// change must be as in the copy in the second block group. Only its second
// sector needs to be written.
func Repaired(r io.ReaderAt) (Superblock, []byte, error) {
	b := make([]byte, superblockSize)
	second := make([]byte, superblockSize)
	if _, err := r.ReadAt(b, SuperblockOffset); err != nil {
		return Superblock{}, nil, fmt.Errorf("read ext4 superblock: %w", err)
	}

	le := binary.LittleEndian
	shift := le.Uint32(b[offLogBlockSize:])
	if le.Uint16(b[offMagic:]) != magic || shift > 6 {
		return Superblock{}, nil, ErrNotExt4
	}
	if _, err := r.ReadAt(second, int64(le.Uint32(b[offBlocksPerGroup:]))*1024<<shift); err != nil {
		return Superblock{}, nil, fmt.Errorf("read the copy of the ext4 superblock: %w", err)
	}

	spare, err := parseSuperblock(second)
	if err != nil {
		return Superblock{}, nil, fmt.Errorf("copy in the second block group: %w", err)
	}

	for _, f := range fixed() {
		if !bytes.Equal(b[f[0]:f[0]+f[1]], second[f[0]:f[0]+f[1]]) {
			return Superblock{}, nil, fmt.Errorf(
				"ext4 superblock: differs from its copy at %#x: no torn write", f[0],
			)
		}
	}

	for off, changes := range map[int]uint32{offIncompat: recovers, offROCompat: orphanPresent} {
		if (le.Uint32(b[off:])^le.Uint32(second[off:]))&^changes != 0 {
			return Superblock{}, nil, fmt.Errorf(
				"ext4 superblock: differs from its copy at %#x: no torn write", off,
			)
		}
	}

	le.PutUint32(b[offChecksum:], checksum(b))
	sb, err := parseSuperblock(b)
	if err == nil && sb.Blocks < spare.Blocks { // It may just have grown.
		err = errors.New("ext4 superblock: has fewer blocks than its copy")
	}

	return sb, b, err
}

// Repair writes the result of Repaired, if the superblock is broken.
func Repair(d device.Device) error {
	if _, err := ReadSuperblock(d); err == nil {
		return nil
	}

	_, b, err := Repaired(d)
	if err != nil {
		return err
	}

	_, err = d.WriteAt(b[sectorSize:], SuperblockOffset+sectorSize)
	return err
}
