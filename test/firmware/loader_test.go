package firmware

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/firmware/bootdir"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/test/judge"
)

// names are the entries of a system with these tries, then the entries of
// another.
func names(t *testing.T, a system, aTries string, b system, bTries string) []string {
	t.Helper()
	name := func(s system, tries string) string {
		blessed := s.file(t, false)
		return blessed[:len(blessed)-len(".efi")] + tries + ".efi"
	}
	return []string{name(a, aTries), name(b, bTries)}
}

// TestTheLoaderCountsAndFallsBack starts a system that always fails.
func TestTheLoaderCountsAndFallsBack(t *testing.T) {
	for _, test := range []struct {
		updates int
		link    place
		counts  [3]int // sectors of \EFI\Linux that each changes
	}{
		{0, bootdir.Link, [3]int{1, 1, 1}},
		{17, bootdir.Link, [3]int{1, 1, 1}},
		{60, bootdir.Link, [3]int{1, 1, 1}},
		{5, linkAnywhere, [3]int{2, 1, 2}}, // which is why there is bootdir.Link
	} {
		t.Run(fmt.Sprintf("after %d updates, counts in %d sectors",
			test.updates, test.counts), func(t *testing.T) {
			if test.updates != 17 {
				judge.Long(t, "after 17 updates; TestPowerCuts has the model after each update")
			}

			r, old, bad := history(t, test.updates, test.link)
			edit(t, r, put(t, bad, test.link))
			m := newMachine(t, r.Flat(), diskSize)
			want := []started{
				{bad.code, test.counts[0], names(t, bad, "+2-1", old, "")},
				{bad.code, test.counts[1], names(t, bad, "+1-2", old, "")},
				{bad.code, test.counts[2], names(t, old, "", bad, "+0-3")},
				{old.code, 0, names(t, old, "", bad, "+0-3")},
			}

			for i, w := range want {
				if diff := cmp.Diff(w, start(t, m)); diff != "" {
					t.Errorf("start %d: %s", i+1, diff)
				}
			}
		})
	}
}

// TestTheLoaderNeedsNoVariables falls back with what firmware does to its
// variables in the field.
func TestTheLoaderNeedsNoVariables(t *testing.T) {
	const lost = "they are lost before each start"
	for name, prepare := range map[string]func(t *testing.T) (before func(m *machine)){
		lost: func(*testing.T) func(m *machine) {
			return func(m *machine) {
				m.variables(filepath.Join(m.tools.Dir, "usr/share/OVMF/OVMF_VARS_4M.fd"))
			}
		},
		"they belong to another disk": func(t *testing.T) func(m *machine) {
			r, _, last := history(t, 5, bootdir.Link)
			edit(t, r, put(t, last, bootdir.Link))
			other := newMachine(t, r.Flat(), diskSize)
			other.start()
			return func(m *machine) { m.variables(other.file("vars")) }
		},
		"they cannot be written": func(*testing.T) func(m *machine) {
			return func(m *machine) { m.fixed = true }
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != lost {
				judge.Long(t, lost)
			}

			before := prepare(t)
			r, old, bad := history(t, 0, bootdir.Link)
			edit(t, r, put(t, bad, bootdir.Link))

			m := newMachine(t, r.Flat(), diskSize)
			for i, want := range []started{
				{Code: bad.code, Entries: names(t, bad, "+2-1", old, "")},
				{Code: bad.code, Entries: names(t, bad, "+1-2", old, "")},
				{Code: bad.code, Entries: names(t, old, "", bad, "+0-3")},
				{Code: old.code, Entries: names(t, old, "", bad, "+0-3")},
			} {
				before(m)
				// With nowhere to write its variables, OVMF makes a file of
				// them on the ESP, too.
				code, _ := m.start()
				if diff := cmp.Diff(want, started{Code: code, Entries: m.entries()}); diff != "" {
					t.Errorf("start %d: %s", i+1, diff)
				}
			}
		})
	}
}

// change is a change of a disk that has 0.1.0, blessed, and 0.2.0 with three
// tries.
type change func(t *testing.T, r *Recorder)

// retry gives a system's entry other tries.
func retry(s system, tries string) change {
	return func(t *testing.T, r *Recorder) {
		edit(t, r, func(f *fat.FS) error {
			name, err := entryFile(f, s)
			if to := names(t, s, tries, s, "")[0]; to != name {
				err = errors.Join(err, f.Rename(bootentry.Dir, name, to, false))
			}
			return err
		})
	}
}

// rested is put to rest.
func rested(s system) change {
	return func(t *testing.T, r *Recorder) {
		edit(t, r, func(f *fat.FS) error {
			name, err := entryFile(f, s)
			return errors.Join(err,
				f.Rename(bootentry.Dir, name, names(t, s, "+0-0", s, "")[0], true))
		})
	}
}

// poke changes a byte of what follows the long name of the entry that goes
// first.
func poke(at int, b byte) change {
	return func(t *testing.T, r *Recorder) {
		_, d := look(t, r.Flat())
		if _, err := r.WriteAt([]byte{b}, d.shown()[0].short().at+int64(at)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLoaderStartsDamagedDisks: the names of its entries lead nowhere, count
// wrongly, or are there twice.
func TestLoaderStartsDamagedDisks(t *testing.T) {
	one := newSystem(t, 1)
	two := newSystem(t, 2)
	again := func(t *testing.T, r *Recorder) {
		edit(t, r, func(f *fat.FS) error {
			return f.Remove(bootentry.Dir + "/" + one.file(t, false))
		})
		edit(t, r, put(t, one, bootdir.Link))
	}

	twice := func(name string, then []string) change {
		return func(t *testing.T, r *Recorder) {
			retry(two, name)(t, r)
			edit(t, r, func(f *fat.FS) error {
				return bootdir.AddName(f, then[0], then[1])
			})
		}
	}

	alone := func(t *testing.T, r *Recorder) {
		edit(
			t,
			r,
			func(f *fat.FS) error { return f.Remove(bootentry.Dir + "/" + two.file(t, true)) },
		)
	}

	once := func(t *testing.T, r *Recorder) { edit(t, r, put(t, one, bootdir.Link)) }
	counted := two.file(t, true)
	blessed := two.file(t, false)
	for _, test := range []struct {
		name   string
		change []change
		want   []started
	}{
		{"all are bad: it goes on counting", []change{retry(one, "+0-0"), retry(two, "+0-9")},
			[]started{
				{2, 1, names(t, two, "+0-10", one, "+0-0")},
				{2, 1, names(t, two, "+0-11", one, "+0-0")},
			}},
		{
			"an older one that fails, before a newer one that was put behind it: " +
				"that is counted too, in two sectors",
			[]change{retry(two, "+0-0"), again},
			[]started{
				{1, 1, names(t, one, "+2-1", two, "+0-0")},
				{1, 1, names(t, one, "+1-2", two, "+0-0")},
				{1, 1, names(t, two, "+0-0", one, "+0-3")},
				{2, 2, names(t, two, "+0-1", one, "+0-3")}},
		},
		{
			"an older one that fails, before a newer one at rest that was put behind it: " +
				"that is not counted",
			[]change{rested(two), again},
			[]started{
				{1, 1, names(t, one, "+2-1", two, "+0-0")},
				{1, 1, names(t, one, "+1-2", two, "+0-0")},
				{1, 1, names(t, two, "+0-0", one, "+0-3")},
				{2, 0, names(t, two, "+0-0", one, "+0-3")},
				{2, 0, names(t, two, "+0-0", one, "+0-3")}},
		},
		{
			"one at rest, and the same with tries: that is counted, then the one at rest is booted",
			[]change{alone, rested(one), once},
			[]started{
				{1, 1, names(t, one, "+2-1", one, "+0-0")},
				{1, 1, names(t, one, "+1-2", one, "+0-0")},
				{1, 1, names(t, one, "+0-0", one, "+0-3")},
				{1, 0, names(t, one, "+0-0", one, "+0-3")}},
		},
		{
			"blessed, and with tries: the first in the directory",
			[]change{twice("", []string{blessed, counted})},
			[]started{{2, 0, []string{blessed, counted, one.file(t, false)}}},
		},
		{
			"with tries, and blessed: the first in the directory, which is then the second",
			[]change{twice("+3-0", []string{counted, blessed})},
			[]started{
				{2, 2, append([]string{blessed}, names(t, two, "+2-1", one, "")...)},
				{2, 0, append([]string{blessed}, names(t, two, "+2-1", one, "")...)},
			},
		},
		{
			"made on a day 0: nothing is counted",
			[]change{poke(16, 0)},
			[]started{{2, 0, names(t, two, "+3-0", one, "")}},
		},
		{
			"written on a day 0: nothing is counted",
			[]change{poke(24, 0)},
			[]started{{2, 0, names(t, two, "+3-0", one, "")}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if len(test.want) > 2 {
				judge.Long(t, "the rows with fewer starts, and TestTheLoaderCountsAndFallsBack")
			}

			r := NewRecorder(newDisk(t, one))
			edit(t, r, put(t, two, bootdir.Link))

			for _, change := range test.change {
				change(t, r)
			}

			m := newMachine(t, r.Flat(), diskSize)
			for _, w := range test.want {
				if diff := cmp.Diff(w, start(t, m)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestLoaderStartsWithATornCount starts from each part of a count in two
// sectors. Where both names stay, it never falls back.
func TestLoaderStartsWithATornCount(t *testing.T) {
	judge.Long(t, "TestPowerCuts, in which the model of the loader starts from such counts")
	r, old, bad := history(t, 5, linkAnywhere)
	edit(t, r, put(t, bad, linkAnywhere))
	base := r.Flat()
	m := newMachine(t, base, diskSize)
	start(t, m)
	l, d := look(t, base)
	clusters, err := l.chain(d.first)
	if err != nil {
		t.Fatal(err)
	}

	var sectors []int64
	for _, at := range slices.Sorted(maps.Keys(m.disk)) {
		if at*SectorSize >= clusters[0] && !equal(m.disk[at], base[at]) {
			sectors = append(sectors, at)
		}
	}

	if len(sectors) != 2 {
		t.Fatalf("the count changes sectors %d", sectors)
	}

	both := []string{
		names(t, bad, "+3-0", old, "")[0], names(t, bad, "+2-1", old, "")[0], old.file(t, false),
	}

	for _, test := range []struct {
		name   string
		has    []bool // which of the two, the one with the old name first
		starts []started
	}{
		{
			"nothing of it",
			[]bool{false, false},
			[]started{{bad.code, 2, names(t, bad, "+2-1", old, "")}},
		},
		{
			"the old name is gone",
			[]bool{true, false},
			slices.Repeat([]started{{old.code, 0, []string{old.file(t, false)}}}, 2),
		},
		{
			"both names are there",
			[]bool{false, true},
			slices.Repeat([]started{{bad.code, 0, both}}, 6),
		},
		{"all of it", []bool{true, true}, []started{{bad.code, 1, names(t, bad, "+1-2", old, "")}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			disk := maps.Clone(base)
			for i, has := range test.has {
				if has {
					disk[sectors[i]] = m.disk[sectors[i]]
				}
			}
			torn := newMachine(t, disk, diskSize)
			for i, w := range test.starts {
				if diff := cmp.Diff(w, start(t, torn)); diff != "" {
					t.Errorf("start %d: %s", i+1, diff)
				}
			}
		})
	}
}
