package firmware

import (
	"encoding/binary"
	"testing"

	"github.com/loam-os/loam/firmware/bootdir"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/test/judge"
)

// TestTheRecoveryEntryIsTheLastResort has real firmware and systemd-boot start
// disks on which hardly anything is left. All other tests have that entry, too,
// and never start it.
func TestTheRecoveryEntryIsTheLastResort(t *testing.T) {
	one := newSystem(t, 1)
	two := newSystem(t, 2)
	remove := func(s system) change {
		return func(t *testing.T, r *Recorder) {
			edit(t, r, func(f *fat.FS) error {
				name, err := entryFile(f, s)
				if err != nil {
					return err
				}
				return f.Remove(bootentry.Dir + "/" + name)
			})
		}
	}

	broken := func(t *testing.T, r *Recorder) {
		// as EDK2 leaves it when it makes a directory larger, and the power
		// goes
		l, d := look(t, r.Flat())
		_, err := r.WriteAt(binary.LittleEndian.AppendUint32(nil, 0), l.fat+4*d.first)
		if err != nil {
			t.Fatal(err)
		}
	}

	for _, test := range []struct {
		name   string
		change []change
		want   byte
	}{
		{"no entry at all", []change{remove(one), remove(two)}, recovers},
		{"a directory whose chain is broken", []change{broken}, recovers},
		{"a bad entry", []change{remove(one), retry(two, "+0-3")}, 2},
		{"an entry at rest", []change{remove(two), rested(one)}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := NewRecorder(newDisk(t, one))
			edit(t, r, put(t, two, bootdir.Link))

			for _, change := range test.change {
				change(t, r)
			}

			m := newMachine(t, r.Flat(), diskSize)
			for range judge.Pick(1, 2) {
				before := m.disk
				code, _ := m.start()
				if code != test.want {
					t.Errorf("%d is started, not %d", code, test.want)
				}
				if code == recovers && len(different(before, m.disk)) > 0 {
					t.Errorf("the recovery entry's start writes %d sectors",
						len(different(before, m.disk)))
				}
			}
		})
	}
}

// different are the sectors that are not the same on two disks.
func different(a, b Sectors) (all []int64) {
	x := NewMemory(a)
	y := NewMemory(b)
	for _, disk := range []Sectors{a, b} {
		for n := range disk {
			if !equal(x.Sector(n), y.Sector(n)) {
				all = append(all, n)
			}
		}
	}
	return all
}
