// Package ext4 reads ext4 superblocks, and carries an empty file system from
// the builder, which has mke2fs, to the node's initramfs, which forks nothing.
// Layout: Linux, Documentation/filesystems/ext4/super.rst.
package ext4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/google/uuid"
)

// SuperblockOffset is where the first superblock is, in bytes; it is 1024 bytes
// long.
const SuperblockOffset = 1024

const (
	superblockSize = 1024
	magic          = 0xef53

	offBlocksLow    = 0x04
	offLogBlockSize = 0x18
	offMagic        = 0x38
	offState        = 0x3a
	offUUID         = 0x68
	offLabel        = 0x78
	offHashSeed     = 0xec
	offBlocksHigh   = 0x150
	offChecksum     = 0x3fc

	hasErrors  = 0x2 // of state: EXT2_ERROR_FS
	hasJournal = 0x4 // of compat
)

// ErrNotExt4 says that there is no ext4 superblock.
var ErrNotExt4 = errors.New("no ext4 superblock")

// Superblock is what Loam needs to know of a file system.
type Superblock struct {
	UUID      uuid.UUID
	Label     string
	BlockSize int64 // bytes
	Blocks    int64 // of BlockSize

	// Errors means that the kernel has found errors in the file system, and
	// that e2fsck has not repaired them since.
	Errors bool

	// NoJournal means that the file system has no journal. Those that Loam makes
	// have one, but e2fsck removes a journal that it cannot read.
	NoJournal bool
}

// Size is the file system's size in bytes.
func (s Superblock) Size() int64 { return s.BlockSize * s.Blocks }

// ReadSuperblock reads the first superblock of r.
func ReadSuperblock(r io.ReaderAt) (Superblock, error) {
	b := make([]byte, superblockSize)
	if _, err := r.ReadAt(b, SuperblockOffset); err != nil {
		return Superblock{}, fmt.Errorf("read ext4 superblock: %w", err)
	}
	return parseSuperblock(b)
}

// ReadBackup reads the copy of the superblock in the second block group, where
// a file system with blocks of 4 KiB has it.
func ReadBackup(r io.ReaderAt) (Superblock, error) {
	const group = 32768 * templateBlock
	b := make([]byte, superblockSize)
	if _, err := r.ReadAt(b, group); err != nil {
		return Superblock{}, fmt.Errorf("read the copy of the ext4 superblock: %w", err)
	}
	return parseSuperblock(b)
}

func parseSuperblock(b []byte) (Superblock, error) {
	if binary.LittleEndian.Uint16(b[offMagic:]) != magic {
		return Superblock{}, ErrNotExt4
	}

	shift := binary.LittleEndian.Uint32(b[offLogBlockSize:])
	blocks := uint64(binary.LittleEndian.Uint32(b[offBlocksHigh:]))<<32 |
		uint64(binary.LittleEndian.Uint32(b[offBlocksLow:]))
	if shift > 6 || blocks == 0 || blocks > 1<<48 {
		return Superblock{}, fmt.Errorf(
			"ext4 superblock: block size 2^(10+%d) or %d blocks: out of range", shift, blocks,
		)
	}

	label := b[offLabel : offLabel+16]
	for i, c := range label {
		if c == 0 {
			label = label[:i]
			break
		}
	}

	sb := Superblock{
		UUID:      uuid.UUID(b[offUUID : offUUID+16]),
		Label:     string(label),
		BlockSize: 1024 << shift,
		Blocks:    int64(blocks),
		Errors:    binary.LittleEndian.Uint16(b[offState:])&hasErrors != 0,
		NoJournal: binary.LittleEndian.Uint32(b[offCompat:])&hasJournal == 0,
	}

	if checksum(b) != binary.LittleEndian.Uint32(b[offChecksum:]) {
		return Superblock{}, errors.New("ext4 superblock: wrong checksum")
	}

	return sb, nil
}

// checksum is crc32c seeded with all ones and, unlike Go's, not inverted at the
// end.
func checksum(b []byte) uint32 {
	return ^crc32.Checksum(b[:offChecksum], crc32.MakeTable(crc32.Castagnoli))
}

// setIdentity gives a superblock a UUID and a directory hash seed. The file
// system needs the feature metadata_csum_seed, or its other checksums would
// break.
func setIdentity(b []byte, id, hashSeed uuid.UUID) {
	copy(b[offUUID:], id[:])
	copy(b[offHashSeed:], hashSeed[:])
	binary.LittleEndian.PutUint32(b[offChecksum:], checksum(b))
}
