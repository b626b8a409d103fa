package volume

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// probe reads around a possible magic. Bytes outside the device, and bytes that
// cannot be read, are zero.
type probe struct {
	disk *reader
	at   int64
}

func (p probe) bytes(rel int64, n int) []byte {
	b, ok := p.disk.read(p.at+rel, n)
	if !ok {
		return make([]byte, n)
	}
	return b
}

func (p probe) byte(rel int64) byte   { return p.bytes(rel, 1)[0] }
func (p probe) le16(rel int64) uint16 { return binary.LittleEndian.Uint16(p.bytes(rel, 2)) }
func (p probe) be16(rel int64) uint16 { return binary.BigEndian.Uint16(p.bytes(rel, 2)) }
func (p probe) le32(rel int64) uint32 { return binary.LittleEndian.Uint32(p.bytes(rel, 4)) }
func (p probe) be32(rel int64) uint32 { return binary.BigEndian.Uint32(p.bytes(rel, 4)) }

// isMBR distinguishes a partition table from the boot sector of a file system,
// which ends in the same bytes.
func isMBR(p probe) bool {
	switch string(p.bytes(3-510, 8)) {
	case "NTFS    ", "EXFAT   ", "-FVE-FS-":
		return false
	}
	for i := range int64(4) {
		if flag := p.byte(-64 + 16*i); flag != 0 && flag != 0x80 {
			return false
		}
	}
	return !isFAT(probe{p.disk, p.at - 510})
}

// protective recognises the MBR of a GPT disk, by partition type 0xEE.
func protective(p probe) (string, string) {
	for i := range int64(4) {
		if p.byte(-64+16*i+4) == 0xee {
			return "PMBR", ""
		}
	}
	return "dos", ""
}

// isFAT checks the BIOS parameter block, because no magic of FAT is written by
// all formatters.
func isFAT(p probe) bool {
	sector := p.le16(11)
	cluster := p.byte(13)
	media := p.byte(21)
	return bits.OnesCount16(sector) == 1 && sector >= 512 && sector <= 4096 &&
		bits.OnesCount8(cluster) == 1 &&
		p.le16(14) > 0 && p.byte(16) > 0 && (media == 0xf0 || media >= 0xf8)
}

func isMac(p probe) bool {
	block := p.be16(2)
	return bits.OnesCount16(block) == 1 && block >= 512 && block <= 4096
}

// isSun checks that the exclusive or of all words of the label, with its
// checksum, is zero.
func isSun(p probe) bool {
	var sum uint16
	for i := range int64(256) {
		sum ^= p.be16(2*i - 508)
	}
	return sum == 0
}

// isAtari looks for one valid partition: the format has no magic.
func isAtari(p probe) bool {
	disk := p.be32(0x1c2)
	for i := range int64(4) {
		part := p.bytes(0x1c6+12*i, 12)
		start := binary.BigEndian.Uint32(part[4:])
		size := binary.BigEndian.Uint32(part[8:])
		named := !slices.ContainsFunc(part[1:4], func(b byte) bool {
			return (b < '0' || b > '9') && (b < 'A' || b > 'Z')
		})
		if part[0]&1 == 1 && named && start > 0 && size > 0 &&
			uint64(start)+uint64(size) <= uint64(disk) {
			return true
		}
	}
	return false
}

func isVIA(p probe) bool { return p.byte(2) <= 2 && p.byte(3) != 0 }

func luksVersion(p probe) (string, string) { return "crypto_LUKS", fmt.Sprint(p.be16(6)) }

// toGoOrFAT tells BitLocker To Go from other FAT file systems that begin with
// the same bytes, as Loam's do: it has an identifier in its boot sector
// (libbde, "BitLocker Drive Encryption (BDE) format", volume header).
func toGoOrFAT(p probe) (string, string) {
	const (
		complete  = "\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01"
		usedSpace = "\x3b\x4d\xa8\x92\x80\xdd\x0e\x4d\x9e\x4e\xb1\xe3\x28\x4e\xae\xd8"
	)
	if id := string(p.bytes(424, 16)); id == complete || id == usedSpace {
		return "BitLocker", ""
	}
	return "vfat", ""
}

// Fields of an ext superblock, from its magic at byte 0x38.
const (
	extBlocks   = 0x04 - 0x38
	extLogBlock = 0x18 - 0x38
	extGroup    = 0x5a - 0x38
	extCompat   = 0x5c - 0x38
	extIncompat = 0x60 - 0x38
	extROCompat = 0x64 - 0x38
)

func isExt(p probe) bool {
	return p.le32(extLogBlock) <= 6 && p.le32(extBlocks) != 0 && p.le16(extGroup) == 0
}

func isExtCopy(group, shift int64) func(probe) bool {
	return func(p probe) bool {
		return int64(p.le32(extLogBlock)) == shift && p.le32(extBlocks) != 0 &&
			int64(p.le16(extGroup)) == group
	}
}

// extKind distinguishes ext2, ext3 and ext4 by features that the older ones do
// not know (Documentation/filesystems/ext4/super.rst).
func extKind(p probe) (string, string) {
	const (
		hasJournal   = 0x4
		journalDev   = 0x8
		ext3Incompat = 0x2 | 0x4 | 0x10 // filetype, recover, meta_bg
		ext3ROCompat = 0x1 | 0x2 | 0x4  // sparse_super, large_file, btree_dir
	)

	incompat := p.le32(extIncompat)
	switch {
	case incompat&journalDev != 0:
		return "jbd", ""
	case incompat&^ext3Incompat != 0, p.le32(extROCompat)&^ext3ROCompat != 0:
		return "ext4", ""
	case p.le32(extCompat)&hasJournal != 0:
		return "ext3", ""
	}

	return "ext2", ""
}

func isHFS(p probe) bool { block := p.be32(0x14); return block != 0 && block%512 == 0 }

// wrapsHFSPlus recognises an HFS volume that only wraps an HFS+ volume.
func wrapsHFSPlus(p probe) (string, string) {
	if inner := string(p.bytes(0x7c, 2)); inner == "H+" || inner == "HX" {
		return "hfsplus", ""
	}
	return "hfs", ""
}

func gfsKind(p probe) (string, string) {
	if p.be32(24) == 1309 {
		return "gfs", ""
	}
	return "gfs2", ""
}

func isUFS(p probe) bool {
	magics := []uint32{0x00011954, 0x19540119, 0x05231994, 0x00195612, 0x00095014, 0x00612195}
	return slices.Contains(magics, p.le32(0)) || slices.Contains(magics, p.be32(0))
}

// isMinix recognises versions 1 and 2 with names of 14 and 30 characters, and
// version 3.
func isMinix(p probe) bool {
	if p.le16(0x38) == 0xef53 {
		return false
	}
	magics := []uint16{0x137f, 0x138f, 0x2468, 0x2478}
	return slices.Contains(magics, p.le16(0x10)) || slices.Contains(magics, p.be16(0x10)) ||
		p.le16(0x18) == 0x4d5a || p.be16(0x18) == 0x4d5a
}

// isUDFAnchor checks the descriptor tag (ECMA-167 3/7.2): the sum of its bytes,
// and the number of its block.
func isUDFAnchor(p probe) bool {
	tag := p.bytes(0, 16)
	var sum byte
	for i, b := range tag {
		if i != 4 {
			sum += b
		}
	}

	location := int64(binary.LittleEndian.Uint32(tag[12:]))
	for block := int64(512); block <= 4096; block *= 2 {
		if sum == tag[4] && p.at == location*block {
			return true
		}
	}

	return false
}
