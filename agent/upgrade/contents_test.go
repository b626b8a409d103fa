package upgrade

import (
	"sync/atomic"
	"testing"

	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/partitions/gpt"
)

// unreadUntilWritten counts reads of a partition before its first write.
type unreadUntilWritten struct {
	Closer
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
	c.upgrade("2.0.0", Wish{})
	c.run(Verdict{Word: Good})
	_, slot, err := c.u.target()
	if err != nil {
		t.Fatal(err)
	}
	open, reads := c.u.Disk.Open, new(atomic.Int64)
	c.u.Disk.Open = func(p gpt.Partition) (Closer, error) {
		d, err := open(p)
		if p.Index == slot.Root || p.Index == slot.Verity {
			d = &unreadUntilWritten{Closer: d, reads: reads}
		}
		return d, err
	}
	c.upgrade("3.0.0", Wish{})
	c.run(Verdict{Word: Good})
	if c.running.Version != "3.0.0" || reads.Load() > 0 {
		t.Errorf("%s runs, after %d reads of the slot", c.running.Version, reads.Load())
	}
}

func TestASlotThatIsNotWhatItWasIsRead(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0", "3.0.0")
	c.upgrade("2.0.0", Wish{})
	c.run(Verdict{Word: Good})
	one, three := c.releases[0], c.releases[2]
	// As if all that is new was there.
	lie := contents{RootHash: one.RootHash, Root: digests(three.index.Root), Verity: digests(three.index.Verity)}
	if err := write(c.recorder, contentsName, lie); err != nil {
		t.Fatal(err)
	}
	c.upgrade("3.0.0", Wish{})
	c.run(Verdict{Word: Good})
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

func TestContentsAreTakenOnce(t *testing.T) {
	k := newRecorder(nil, nil)
	one, two := contents{RootHash: "1"}, contents{RootHash: "2"}
	for _, step := range []struct {
		name, replaces string
		running        contents
		want           string
	}{
		{"nothing is known", "2", one, ""},
		{"of another", "3", one, ""},
		{"of what is replaced", "1", two, "1"},
		{"the same after a cut", "1", two, ""},
		{"of the other slot now", "2", contents{}, "2"},
		{"what runs could not be read", "2", contents{}, ""},
	} {
		if had, err := exchange(k, step.replaces, step.running); err != nil || had.RootHash != step.want {
			t.Errorf("%s: %q, %v", step.name, had.RootHash, err)
		}
	}
}
