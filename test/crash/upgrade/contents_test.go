package upgrade_test

import (
	"sync/atomic"
	"testing"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/partitions/gpt"
)

// unreadUntilWritten counts reads of a partition before its first write.
type unreadUntilWritten struct {
	disk.Closer
	written bool
	reads   *atomic.Int64
}

func (d *unreadUntilWritten) ReadAt(p []byte, off int64) (int, error) {
	if !d.written {
		d.reads.Add(1)
	}
	return d.Closer.ReadAt(p, off)
}

func (d *unreadUntilWritten) WriteAt(p []byte, off int64) (int, error) {
	d.written = true
	return d.Closer.WriteAt(p, off)
}

func TestASlotWhoseSystemHasRunIsNotReadToBeReplaced(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0", "3.0.0")
	c.upgrade("2.0.0", upgrade.Options{})
	c.run(upgrade.Verdict{Word: upgrade.Good})

	_, slot, err := c.target()
	if err != nil {
		t.Fatal(err)
	}

	before := c.u.Disk.Partitions
	reads := new(atomic.Int64)
	c.u.Disk.Partitions = opening{before, func(p gpt.Partition) (disk.Closer, error) {
		d, err := before.Open(p)
		if p.Index == slot.Root || p.Index == slot.Verity {
			d = &unreadUntilWritten{Closer: d, reads: reads}
		}
		return d, err
	}}

	c.upgrade("3.0.0", upgrade.Options{})
	c.run(upgrade.Verdict{Word: upgrade.Good})

	if c.running.Version != "3.0.0" || reads.Load() > 0 {
		t.Errorf("%s runs, after %d reads of the slot", c.running.Version, reads.Load())
	}
}

func TestASlotThatIsNotWhatItWasIsRead(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0", "3.0.0")
	c.upgrade("2.0.0", upgrade.Options{})
	c.run(upgrade.Verdict{Word: upgrade.Good})
	one := c.releases[0]
	three := c.releases[2]

	// As if all that is new was there.
	lie := fill.Contents{
		RootHash: one.RootHash,
		Root:     digests(three.index.Root),
		Verity:   digests(three.index.Verity),
	}
	if err := records.Save(c.recorder, fill.ContentsFile, lie); err != nil {
		t.Fatal(err)
	}

	c.upgrade("3.0.0", upgrade.Options{})
	c.run(upgrade.Verdict{Word: upgrade.Good})

	if c.running.Version != "3.0.0" {
		t.Errorf("%s runs", c.running.Version)
	}
}

func digests(p bundle.Part) (all []bundle.Digest) {
	for _, c := range p.Chunks {
		all = append(all, c.SHA256)
	}
	return all
}
