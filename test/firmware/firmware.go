package firmware

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Disk is what firmware has of one.
type Disk interface {
	io.ReaderAt
	io.WriterAt
}

// SectorSize is the unit that a disk writes completely or not at all.
const SectorSize = 512

// Loader is the firmware with systemd-boot as \EFI\BOOT\BOOTX64.EFI of an ESP.
type Loader struct {
	disk      Disk
	cluster   int64 // bytes
	fat, data int64 // offsets on the disk
	root      int64 // first cluster
}

// Open reads the boot sector of the ESP that starts at the offset start of the
// disk.
func Open(disk Disk, start int64) (Loader, error) {
	b := make([]byte, SectorSize)
	if _, err := disk.ReadAt(b, start); err != nil {
		return Loader{}, fmt.Errorf("boot sector: %w", err)
	}

	le := binary.LittleEndian
	if b[510] != 0x55 || b[511] != 0xaa {
		return Loader{}, errors.New("boot sector: no signature")
	}

	perSector := int64(le.Uint16(b[11:]))
	l := Loader{disk: disk, cluster: perSector * int64(b[13]), root: int64(le.Uint32(b[44:]))}
	l.fat = start + int64(le.Uint16(b[14:]))*perSector
	l.data = l.fat + int64(b[16])*int64(le.Uint32(b[36:]))*perSector

	return l, nil
}

// chain is the offsets of a chain's clusters on the disk. Only the first FAT
// counts.
func (l Loader) chain(first int64) ([]int64, error) {
	var all []int64
	b := make([]byte, 4)
	for c := first; c < 0x0ffffff8; {
		if c < 2 || len(all) > 1<<20 {
			return nil, fmt.Errorf("chain of cluster %d is broken at cluster %d", first, c)
		}
		all = append(all, l.data+(c-2)*l.cluster)
		if _, err := l.disk.ReadAt(b, l.fat+4*c); err != nil {
			return nil, err
		}
		c = int64(binary.LittleEndian.Uint32(b) & 0x0fffffff)
	}

	return all, nil
}

// Read is the content of an entry.
func (l Loader) Read(e Entry) ([]byte, error) {
	clusters, err := l.chain(e.first)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Name, err)
	}
	if int64(len(clusters))*l.cluster < e.Size {
		return nil, fmt.Errorf("%s: %d clusters for %d bytes", e.Name, len(clusters), e.Size)
	}

	b := make([]byte, int64(len(clusters))*l.cluster)
	for i, at := range clusters {
		if _, err := l.disk.ReadAt(b[int64(i)*l.cluster:][:l.cluster], at); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name, err)
		}
	}

	return b[:e.Size], nil
}
