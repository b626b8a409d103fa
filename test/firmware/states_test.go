package firmware

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/loam-os/loam/firmware/bootdir"
	"github.com/loam-os/loam/test/judge"
)

// states checks what power cuts leave of a disk with a system, on which another
// is placed that always fails.
type states struct {
	old, trial system
	seen       map[[32]byte]bool
	checked    int
	// states from which the system is not reached again, by the entries in them
	wrong map[string]int
	err   error // of one of them
}

// check starts a state until it stays with one system.
func (s *states) check(disk Memory) {
	if !s.first(disk) {
		return
	}
	s.checked++
	if err := s.falls(Memory{disk.Base, maps.Clone(disk.Over)}); err != nil {
		s.wrong[s.class(disk)]++
		s.err = err
	}
}

// first: no state before it, of the same base, was the same.
func (s *states) first(disk Memory) bool {
	h := sha256.New()
	for _, n := range slices.Sorted(maps.Keys(disk.Over)) {
		if !equal(disk.Over[n], disk.Base[n]) {
			fmt.Fprintf(h, "%d %x", n, disk.Over[n])
		}
	}

	sum := [32]byte(h.Sum(nil))
	first := !s.seen[sum]
	s.seen[sum] = true

	return first
}

// falls: within four starts the loader starts the blessed system, and all that
// it starts is complete.
func (s *states) falls(disk Memory) error {
	for range 4 {
		e, content, err := Start(disk, espStart)
		if err != nil {
			return err
		}

		name, err := nameOf(e.Name)
		switch {
		case err != nil:
			return err
		case name.Version == s.old.version && bytes.Equal(content, s.old.uki),
			name.Version == s.trial.version && bytes.Equal(content, s.trial.uki):
		default:
			return fmt.Errorf("%s has the content of another", e.Name)
		}

		if !name.Counted {
			return nil
		}
	}

	return errors.New("after four starts it does not fall back")
}

// class is how often the system on trial is in a state.
func (s *states) class(disk Memory) string {
	l, err := Open(disk, espStart)
	if err != nil {
		return err.Error()
	}

	entries, err := l.Entries()
	n := 0
	for _, e := range entries {
		if name, err := nameOf(e.Name); err == nil && name.Version == s.trial.version {
			n++
		}
	}

	return fmt.Sprintf("%d names of the system on trial, %v", n, err)
}

// starts cuts the power in so many starts in a row.
func (s *states) starts(t *testing.T, disk Memory, left int) {
	s.check(disk)
	if left == 0 {
		return
	}

	r := &Recorder{Memory: Memory{disk.Base, maps.Clone(disk.Over)}}
	boot(t, r)
	for _, epoch := range r.Epochs {
		Subsets(epoch, 0, 0, func(kept Sectors) {
			over := maps.Clone(disk.Over)
			maps.Copy(over, kept)
			s.starts(t, Memory{disk.Base, over}, left-1)
		})
	}
}

// epochs checks all states of what was recorded over a disk.
func (s *states) epochs(base Sectors, epochs [][]Written) {
	over := Sectors{}
	for i, epoch := range epochs {
		Subsets(epoch, 20, uint64(i), func(kept Sectors) {
			cut := maps.Clone(over)
			maps.Copy(cut, kept)
			s.check(Memory{base, cut})
		})
		for _, w := range epoch {
			over[w.Sector] = w.Data
		}
	}
}

// TestPowerCuts cuts the power in each of many updates, of which every third
// fails, and in the starts in between.
func TestPowerCuts(t *testing.T) {
	for _, test := range []struct {
		name    string
		link    place
		updates int
		safe    bool
	}{
		{
			"an entry at the end of the directory and the beginning of a sector falls back",
			bootdir.Link,
			judge.PickOf(20, 60, 60),
			true,
		},
		{"an entry in the first place that is free does not", linkAnywhere, 12, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &states{old: newSystem(t, 1), wrong: map[string]int{}}
			disk := newDisk(t, s.old)
			for i := range test.updates {
				s.trial = newSystem(t, i+2)
				s.seen = map[[32]byte]bool{}
				placed := NewRecorder(disk)
				edit(t, placed, put(t, s.trial, test.link))
				s.starts(t, NewMemory(placed.Flat()), 2)

				r := NewRecorder(disk)
				stays := update(t, r, s.old, s.trial, test.link, i%3 != 2)
				s.epochs(disk, r.Epochs)
				s.old = stays
				disk = r.Flat()
			}

			t.Logf(
				"L2: %d states of %d updates and the model's starts, of which do not fall back: %v",
				s.checked, test.updates, s.wrong,
			)

			if test.safe != (s.err == nil) || (test.safe && s.checked < judge.PickOf(3_000, 10_000, 10_000)) {
				t.Errorf("%d states, error %v", s.checked, s.err)
			}
		})
	}
}

// TestPowerCutsOfTheRealLoader cuts the power in starts of the real firmware
// and loader, all along the directory, and in the two starts after that, which
// are the model's. With LOAM_CRASH_STATES it does so at more places, and starts
// one of each kind of state for real, too, and cuts that.
func TestPowerCutsOfTheRealLoader(t *testing.T) {
	began := time.Now()
	places := 1
	all := os.Getenv("LOAM_CRASH_STATES") != ""
	if all {
		places = 4
	}

	s := &states{old: newSystem(t, 1), wrong: map[string]int{}}
	kinds := map[string]bool{}
	starts := 0
	n := 1
	next := func() system {
		n++
		return newSystem(t, n)
	}

	// cut starts a disk for real, and calls do for what a cut in that leaves.
	cut := func(m *machine, do func(epoch []Written, base, kept Sectors)) {
		base := m.disk
		_, requests := record(t, m)
		starts++

		r := NewRecorder(base)
		if err := play(r, requests); err != nil {
			t.Fatal(err)
		}

		for _, epoch := range r.Epochs {
			Subsets(epoch, 0, 0, func(kept Sectors) { do(epoch, base, kept) })
		}
	}

	disk := newDisk(t, s.old)
	for range places {
		r := NewRecorder(disk)
		for i := range 5 { // The directory fills.
			s.old = update(t, r, s.old, next(), bootdir.Link, i%3 > 0)
		}

		disk = r.Flat()
		s.trial = next()
		s.seen = map[[32]byte]bool{}
		placed := NewRecorder(disk)
		edit(t, placed, put(t, s.trial, bootdir.Link))

		m := newMachine(t, placed.Flat(), diskSize)
		for try := range 3 {
			cut(m, func(epoch []Written, base, kept Sectors) {
				s.starts(t, Memory{placed.Flat(), Memory{base, kept}.Flat()}, 2)
				if kind := fmt.Sprint(try, len(epoch), keptOf(epoch, kept)); all && !kinds[kind] {
					kinds[kind] = true
					cut(
						newMachine(t, Memory{base, kept}.Flat(), diskSize),
						func(_ []Written, base, kept Sectors) {
							s.starts(t, Memory{placed.Flat(), Memory{base, kept}.Flat()}, 1)
						},
					)
				}
			})
		}
	}

	t.Logf("L2: %d states of what %d real starts of OVMF and systemd-boot write, "+
		"and the two after; %d kinds of them started for real; in %s",
		s.checked, starts, len(kinds), time.Since(began).Round(time.Second))

	if s.err != nil {
		t.Errorf("%v: %v", s.wrong, s.err)
	}
}

// keptOf is which of an epoch's sectors are kept.
func keptOf(epoch []Written, kept Sectors) (which []bool) {
	for _, w := range epoch {
		which = append(which, kept[w.Sector] != nil)
	}
	return which
}
