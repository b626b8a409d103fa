package upgrade_test

import (
	"errors"
	"testing"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/partitions/gpt"
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
