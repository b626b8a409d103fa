package upgrade_test

import (
	"errors"
	"testing"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/test/firmware"
)

// badSector is a device with a byte that cannot be read until it is written.
type badSector struct {
	disk.Closer
	at *int64
}

func (d badSector) has(n int, off int64) bool { return off <= *d.at && *d.at < off+int64(n) }

func (d badSector) ReadAt(p []byte, off int64) (int, error) {
	if d.has(len(p), off) {
		return 0, errors.New("bad sector")
	}
	return d.Closer.ReadAt(p, off)
}

func (d badSector) WriteAt(p []byte, off int64) (int, error) {
	if d.has(len(p), off) {
		*d.at = -1
	}
	return d.Closer.WriteAt(p, off)
}

func TestASlotThatCannotBeReadIsWritten(t *testing.T) {
	for name, known := range map[string]bool{
		"what it has is known":     true,
		"what it has is not known": false,
	} {
		for at := range int64(2) { // The first half of the root is the same in all versions.
			c := newCourse(t, "1.0.0", "2.0.0", "3.0.0")
			c.upgrade("2.0.0", upgrade.Options{})
			c.run(upgrade.Verdict{Word: upgrade.Good})

			if !known {
				_ = c.Remove(fill.ContentsFile)
			}

			_, slot, err := c.target()
			if err != nil {
				t.Fatal(err)
			}

			bad := at * (rootSize - 1)
			before := c.u.Disk.Partitions
			c.u.Disk.Partitions = opening{before, func(p gpt.Partition) (disk.Closer, error) {
				d, err := before.Open(p)
				if p.Index == slot.Root {
					d = badSector{d, &bad}
				}
				return d, err
			}}

			c.upgrade("3.0.0", upgrade.Options{})
			if bad >= 0 || c.running.Version != "3.0.0" {
				t.Errorf("%s: byte %d is as it was, %s runs", name, bad, c.running.Version)
			}
		}
	}
}

// TestABadLastSectorEndsNoTrial: the backup copy of the partition table is lost while a
// system is on trial. That system is accepted, and the next upgrade is refused before it
// takes the other system away.
func TestABadLastSectorEndsNoTrial(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0", "3.0.0")
	c.upgrade("2.0.0", upgrade.Options{})
	c.u.Disk.Whole = firmware.BadEnd{Device: c.u.Disk.Whole, From: c.table.DiskSize - sector}

	if op := c.run(upgrade.Verdict{Word: upgrade.Good}); op.Kind != upgrade.Nothing {
		t.Fatalf("after a trial that went well: %v", op)
	}
	if j, err := upgrade.ReadJournal(c.u.Records); j != nil || err != nil {
		t.Errorf("the upgrade is still under way: %+v, %v", j, err)
	}

	err := c.u.Begin(c.releases[2].index, upgrade.Options{}, upgrade.Facts{})
	if fault.Of(err) != fault.DiskError {
		t.Errorf("the next upgrade: %v", err)
	}
	if other := c.u.Other(); other != "1.0.0" {
		t.Errorf("the other slot holds %q", other)
	}
}
