package drive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
)

// FileSystem describes the file system on a drive. Type is the kernel's name
// for it, "" for anything but FAT and ISO 9660.
type FileSystem struct{ Type, Label string }

// Identify returns the file system that r begins with. It is the zero
// FileSystem if r is too short, or the file system is not FAT or ISO 9660.
func Identify(r io.ReaderAt) (FileSystem, error) {
	for _, identify := range []func(io.ReaderAt) (FileSystem, error){iso9660, fat} {
		if found, err := identify(r); err != nil || found.Type != "" {
			return found, err
		}
	}
	return FileSystem{}, nil
}

// iso9660 reads the primary volume descriptor (ECMA-119, 8.4). It is in sector
// 16, the first that is not reserved for the system; sectors have 2048 bytes.
func iso9660(r io.ReaderAt) (FileSystem, error) {
	descriptor, err := at(r, 16*2048, 72)
	if err != nil || !bytes.HasPrefix(descriptor, []byte("\x01CD001\x01")) {
		return FileSystem{}, err
	}
	return FileSystem{"iso9660", text(descriptor[40:72])}, nil
}

// fat reads the boot sector (Microsoft's "FAT: General Overview of On-Disk
// Format" 1.03). A label in the root directory goes before the label in the
// boot sector, because systems that rename a volume change only the former.
func fat(r io.ReaderAt) (FileSystem, error) {
	boot, err := at(r, 0, 512)
	if err != nil || len(boot) < 512 || !bytes.Equal(boot[510:], []byte{0x55, 0xaa}) {
		return FileSystem{}, err
	}

	var label []byte
	switch {
	case bytes.HasPrefix(boot[54:], []byte("FAT12   ")),
		bytes.HasPrefix(boot[54:], []byte("FAT16   ")):
		label = boot[43:54]
	case bytes.HasPrefix(boot[82:], []byte("FAT32   ")):
		label = boot[71:82]
	default:
		return FileSystem{}, nil
	}

	root, err := at(r, rootDirectory(boot), 4096)
	if own := volumeLabel(root); own != nil {
		label = own
	}

	return FileSystem{"vfat", text(label)}, err
}

// rootDirectory returns the offset of the root directory: after the FATs, or in
// a cluster on FAT32, which has no entries there.
func rootDirectory(boot []byte) int64 {
	number16 := func(off int) int64 { return int64(binary.LittleEndian.Uint16(boot[off:])) }
	number32 := func(off int) int64 { return int64(binary.LittleEndian.Uint32(boot[off:])) }
	sector := number16(11)
	reserved := number16(14)
	fats := int64(boot[16])
	entries := number16(17)

	size := number16(22)
	if size == 0 {
		size = number32(36)
	}

	data := reserved + fats*size
	if entries == 0 {
		data += (number32(44) - 2) * int64(boot[13])
	}

	return data * sector
}

// volumeLabel finds the entry with the label: it has attribute 8 and is not
// part of a long name. A first byte of 0 ends the directory, 0xe5 marks a
// removed entry.
func volumeLabel(directory []byte) []byte {
	const slot, attribute = 32, 11
	for ; len(directory) >= slot && directory[0] != 0; directory = directory[slot:] {
		if a := directory[attribute]; a&8 != 0 && a&0x3f != 0x0f && directory[0] != 0xe5 {
			return directory[:attribute]
		}
	}
	return nil
}

func text(label []byte) string { return strings.TrimRight(string(label), " \x00") }

// at reads n bytes, or fewer at the end.
func at(r io.ReaderAt, off int64, n int) ([]byte, error) {
	b := make([]byte, n)
	got, err := r.ReadAt(b, max(off, 0))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:got], err
}
