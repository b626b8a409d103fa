package gpt

import (
	"fmt"
	"hash/crc32"

	"github.com/loam-os/loam/partitions/device"
)

// Create writes the protective MBR, then the table. For a disk that has no GPT
// yet.
func (t Table) Create(d device.Device) error {
	if err := t.Validate(); err != nil {
		return fmt.Errorf("create partition table: %w", err)
	}
	if _, err := d.WriteAt(protectiveMBR(t.SectorSize), 0); err != nil {
		return fmt.Errorf("write protective MBR: %w", err)
	}
	return t.Write(d)
}

// Repair writes what [Read] has found wrong; nothing if all is right. The MBR
// is one sector, which a power cut leaves as it was or complete.
func (t Table) Repair(d device.Device) error {
	if t.Source.MBR != nil {
		if _, err := d.WriteAt(protectiveMBR(t.SectorSize), 0); err != nil {
			return fmt.Errorf("write protective MBR: %w", err)
		}
		if err := d.Sync(); err != nil {
			return fmt.Errorf("write protective MBR: %w", err)
		}
	}
	if t.Source.Healthy() {
		return nil
	}
	return t.Write(d)
}

// Write replaces both copies of the table: backup array, backup header, flush,
// primary array, primary header, flush. It begins with the primary if only the
// backup was valid (Source.Used). After a power cut at any point one copy is
// valid.
func (t Table) Write(d device.Device) error {
	if err := t.Validate(); err != nil {
		return fmt.Errorf("write partition table: %w", err)
	}

	array := t.array()
	order := []Copy{Backup, Primary}
	if t.Source.Used == Backup {
		order = []Copy{Primary, Backup}
	}

	for _, c := range order {
		h := t.header(c, crc32.ChecksumIEEE(array))
		if err := t.write(d, h, array); err != nil {
			return fmt.Errorf("write %s partition table: %w", c, err)
		}
	}

	return nil
}

// write writes one copy, the array before the header that vouches for it, and
// flushes.
func (t Table) write(d device.Device, h header, array []byte) error {
	if _, err := d.WriteAt(array, int64(h.array)*int64(t.SectorSize)); err != nil {
		return fmt.Errorf("array: %w", err)
	}
	if _, err := d.WriteAt(h.encode(t.SectorSize), int64(h.self)*int64(t.SectorSize)); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	return d.Sync()
}
