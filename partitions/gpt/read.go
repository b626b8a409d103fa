package gpt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// ErrCopiesDiffer: both copies are valid but not equal, as after a power cut
// between the two writes.
var ErrCopiesDiffer = errors.New("differs from the primary")

// Read reads the table of a disk of diskSize bytes. If both copies are valid it
// uses the primary, as firmware and kernel do. It looks for the backup where
// the primary says, or else in the disk's last sector. A table may span less
// than the disk (the disk has grown): see Grow. If neither copy is valid the
// error names the fault of each.
func Read(r io.ReaderAt, diskSize int64, sectorSize int) (Table, error) {
	if sectorSize != 512 && sectorSize != 4096 {
		return Table{}, fmt.Errorf("read partition table: sector size %d: want 512 or 4096",
			sectorSize)
	}

	sectors := uint64(max(diskSize, 0) / int64(sectorSize))
	if sectors < minSectors {
		return Table{}, fmt.Errorf("read partition table: %d bytes are too few for one", diskSize)
	}
	d := disk{r: r, sectors: sectors, sectorSize: sectorSize}
	primary, primaryErr := d.read(1)
	backupAt := sectors - 1
	if primaryErr == nil {
		backupAt = uint64(primary.DiskSize/int64(sectorSize)) - 1
	}

	backup, backupErr := d.read(backupAt)
	t := primary
	switch {
	case primaryErr != nil && backupErr != nil:
		return Table{}, fmt.Errorf("read partition table: primary: %w; backup: %w",
			primaryErr, backupErr)
	case primaryErr != nil:
		t = backup
		t.Source.Used = Backup
	default:
		t.Source.Used = Primary
		if backupErr == nil &&
			(primary.DiskGUID != backup.DiskGUID ||
				!slices.Equal(primary.Partitions, backup.Partitions)) {
			backupErr = ErrCopiesDiffer
		}
	}

	t.Source.Primary = primaryErr
	t.Source.Backup = backupErr
	t.Source.MBR = d.checkMBR()
	return t, nil
}

// checkMBR reports what is wrong with the protective MBR (UEFI 5.2.3): it has a
// signature, and a partition of type 0xEE that begins in sector 1. A hybrid MBR
// has others beside it.
func (d disk) checkMBR() error {
	sector := make([]byte, 512)
	if _, err := d.r.ReadAt(sector, 0); err != nil {
		return fmt.Errorf("protective MBR: %w", err)
	}
	if sector[510] != 0x55 || sector[511] != 0xAA {
		return errors.New("protective MBR: signature is missing")
	}

	for entry := sector[446:510]; len(entry) > 0; entry = entry[16:] {
		if entry[4] == protectiveType && binary.LittleEndian.Uint32(entry[8:]) == 1 {
			return nil
		}
	}
	return errors.New("protective MBR: no partition of type 0xEE in sector 1")
}

// minSectors is how many sectors a disk has at least: one before each header.
const minSectors = 3

// disk is what Read reads from. No position from the disk is used before it is
// checked against sectors.
type disk struct {
	r          io.ReaderAt
	sectors    uint64
	sectorSize int
}

// read reads and checks the copy whose header is in sector at. Find is Read for
// a disk image whose sector size is unknown.
func Find(r io.ReaderAt, size int64) (Table, error) {
	table, err := Read(r, size, 512)
	if err != nil {
		if other, otherErr := Read(r, size, 4096); otherErr == nil {
			return other, nil
		}
	}
	return table, err
}

func (d disk) read(at uint64) (Table, error) {
	if at < 1 || at >= d.sectors {
		return Table{}, fmt.Errorf("header sector %d: outside the disk's %d sectors", at, d.sectors)
	}

	sector := make([]byte, d.sectorSize)
	if _, err := d.r.ReadAt(sector, int64(at)*int64(d.sectorSize)); err != nil {
		return Table{}, fmt.Errorf("header sector %d: %w", at, err)
	}

	h, err := decodeHeader(sector)
	if err != nil {
		return Table{}, fmt.Errorf("header sector %d: %w", at, err)
	}

	t, err := d.span(h, at)
	if err != nil {
		return Table{}, fmt.Errorf("header sector %d: %w", at, err)
	}

	array := make([]byte, arraySize)
	if _, err := d.r.ReadAt(array, int64(h.array)*int64(d.sectorSize)); err != nil {
		return Table{}, fmt.Errorf("partition array in sector %d: %w", h.array, err)
	}
	if crc32.ChecksumIEEE(array) != h.arrayCRC {
		return Table{}, fmt.Errorf("partition array in sector %d: checksum is wrong", h.array)
	}

	t.Partitions, err = d.decodeArray(array)
	if err != nil {
		return Table{}, err
	}

	return t, t.Validate()
}

// span checks the header's positions against the sector it was read from and
// the disk, and makes the table they describe.
func (d disk) span(h header, at uint64) (Table, error) {
	last := max(h.self, h.other)
	if h.self != at || min(h.self, h.other) != 1 || last >= d.sectors {
		return Table{}, fmt.Errorf("headers in sectors %d and %d: outside the disk's %d sectors",
			h.self, h.other, d.sectors)
	}

	t := Table{
		DiskGUID:   h.diskGUID,
		SectorSize: d.sectorSize,
		DiskSize:   int64(last+1) * int64(d.sectorSize),
	}

	arraySectors := uint64(arraySize / d.sectorSize)
	if last < 2*(arraySectors+1)+1 {
		return Table{}, fmt.Errorf("disk of %d sectors: no room for two partition arrays", last+1)
	}

	copyOf := Primary
	if at == last {
		copyOf = Backup
	}

	if want := t.header(copyOf, 0).array; h.array != want {
		return Table{}, fmt.Errorf("partition array in sector %d: want %d", h.array, want)
	}

	return t, nil
}
