package fat

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions/fat/dirent"
	"github.com/loam-os/loam/test/judge"
)

// damage is what a test does to a disk: through the FS that it opened, whose
// fat and directories it may write as they should not be.
type damage func(t *testing.T, m *memory, f *FS)

// setFAT sets a cluster's entry in FAT n only.
func setFAT(n int64, cluster func(t *testing.T, f *FS) uint32, next uint32) damage {
	return func(t *testing.T, m *memory, f *FS) {
		off := f.fatAt(n) + 4*int64(cluster(t, f))
		poke(t, m, off, binary.LittleEndian.AppendUint32(nil, next)...)
	}
}

func poke(t *testing.T, m *memory, off int64, b ...byte) {
	t.Helper()
	if _, err := m.WriteAt(b, off); err != nil {
		t.Fatal(err)
	}
}

// second is the second cluster of the file or directory.
func second(path string) func(t *testing.T, f *FS) uint32 {
	return func(t *testing.T, f *FS) uint32 { return f.fat.next(entryOf(t, f, path).first) }
}

func entryOf(t *testing.T, f *FS, path string) Entry {
	t.Helper()
	_, e, err := f.lookup(path)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// free is a cluster that no file has.
func free(_ *testing.T, f *FS) uint32 { return f.last() - 9 }

// slots rewrites a directory's slots.
func slots(path string, change func(d *directory)) damage {
	return func(t *testing.T, m *memory, f *FS) {
		t.Helper()
		d, err := f.directory(path)
		if err != nil {
			t.Fatal(err)
		}

		change(d)
		for i, c := range d.chain {
			poke(t, m, f.offset(c), d.raw[int64(i)*f.clusterSize:][:f.clusterSize]...)
		}
	}
}

func (d *directory) put(slot int, set []byte) { copy(d.raw[slot*dirent.SlotSize:], set) }

// set is the slots of a file without content.
func set(name, short string) []byte {
	base, ext, _ := strings.Cut(short, ".")
	return append(dirent.LongSlots(name, dirent.Pad(base, ext)),
		dirent.ShortSlot(dirent.Pad(base, ext), dirent.AttrArchive, 0, 0)...)
}

func TestCheckAndReclaim(t *testing.T) {
	const uki, boot = "EFI/Linux/" + oldUKI, "EFI/BOOT/BOOTX64.EFI"
	// the others are of . .. and the fillers, and of a UKI
	const places = 64<<10/dirent.SlotSize/bootentry.Slots - 2
	for _, tc := range []struct {
		name    string
		damage  damage
		want    Report
		after   Report // of Reclaim; its error if it is not to be possible
		err     string
		changed bool // the tree
	}{
		{name: "nothing", damage: func(*testing.T, *memory, *FS) {}},
		{
			name: "leaked clusters",
			damage: func(t *testing.T, m *memory, f *FS) {
				setFAT(0, free, endOfChain)(t, m, f)
				setFAT(1, free, endOfChain)(t, m, f)
			},
			want: Report{Leaked: 1},
		},
		{
			name:   "a cluster leaked in FAT 2",
			damage: setFAT(1, free, endOfChain),
			want:   Report{FATsDiffer: 1},
		},
		{
			name:   "a chain that is broken in FAT 2",
			damage: setFAT(1, second(uki), 0),
			want:   Report{FATsDiffer: 1},
		},
		{
			name:    "a file's chain that is broken in FAT 1",
			damage:  setFAT(0, second(uki), 0),
			want:    Report{FATsDiffer: 1, Broken: []string{"is free"}},
			changed: true,
		},
		{
			name:    "a directory's chain that is broken in FAT 1",
			damage:  setFAT(0, second("EFI/Linux"), 0x0ff00000),
			want:    Report{FATsDiffer: 1, Broken: []string{"/EFI/Linux: cluster"}},
			changed: true,
		},
		{
			name: "a directory's chain that is broken in both",
			damage: func(t *testing.T, m *memory, f *FS) {
				setFAT(0, second("EFI/Linux"), 0)(t, m, f)
				setFAT(1, second("EFI/Linux"), 0)(t, m, f)
			},
			want: Report{Broken: []string{"/EFI/Linux: cluster"}, Leaked: 10},
			err:  "not all of the tree can be read",
		},
		{
			name: "a file's chain that is broken in both",
			damage: func(t *testing.T, m *memory, f *FS) {
				setFAT(0, second(uki), 0)(t, m, f)
				setFAT(1, second(uki), 0)(t, m, f)
			},
			want:    Report{Broken: []string{"it is free"}, Leaked: 2},
			after:   Report{Broken: []string{"the chain ends after 1 of 4"}},
			changed: true,
		},
		{
			name: "a file's chain that is a loop",
			damage: func(t *testing.T, m *memory, f *FS) {
				for n := range int64(2) {
					setFAT(n, second(boot), entryOf(t, f, boot).first)(t, m, f)
				}
			},
			want:    Report{Broken: []string{"is a loop"}, Leaked: 1},
			after:   Report{Broken: []string{"is a loop"}},
			changed: true,
		},
		{
			name: "a chain that is too long",
			damage: slots("EFI/BOOT", func(d *directory) {
				dirent.Point(d.at(2), d.entries[0].first, 100)
			}),
			want:  Report{Broken: []string{"a chain of 3 clusters, the file has 1"}},
			after: Report{Broken: []string{"has 1"}},
		},
		{
			name: "a chain that is too short",
			damage: slots("EFI/BOOT", func(d *directory) {
				dirent.Point(d.at(2), d.entries[0].first, 30000)
			}),
			want:    Report{Broken: []string{"the chain ends after 3 of 4 clusters"}},
			after:   Report{Broken: []string{"3 of 4"}},
			changed: true,
		},
		{
			name: "two names of one chain, as EDK2's torn rename leaves",
			damage: slots("EFI/Linux", func(d *directory) {
				d.put(8, d.raw[4*dirent.SlotSize:8*dirent.SlotSize])
			}),
			want: Report{
				Crossed:     [][2]string{{uki, uki}},
				Places:      places - 1,
				PlacesAtEnd: places - 1,
			},
			after: Report{
				Crossed:     [][2]string{{uki, uki}},
				Places:      places - 1,
				PlacesAtEnd: places - 1,
			},
		},
		{
			name:   "an entry without its first slot",
			damage: slots("EFI/Linux", func(d *directory) { d.at(4)[0] = dirent.Free }),
			want:   Report{Orphans: []string{"EFI/Linux/LOAM-N~1.EFI"}},
			after:  Report{Orphans: []string{"EFI/Linux/LOAM-N~1.EFI"}},
		},
		{
			name:   "an entry with another's long name",
			damage: slots("EFI/Linux", func(d *directory) { d.at(7)[0]++ }),
			want:   Report{Orphans: []string{"EFI/Linux/MOAM-N~1.EFI"}},
			after:  Report{Orphans: []string{"EFI/Linux/MOAM-N~1.EFI"}},
		},
		{
			name:   "a long name without an entry",
			damage: slots("EFI/BOOT", func(d *directory) { d.put(3, set(oldUKI, "A.EFI")[:96]) }),
			want:   Report{LooseSlots: 3},
		},
		{
			name: "sets in two sectors, after one with three slots",
			damage: slots("EFI/Linux", func(d *directory) {
				d.put(8, set("three slots of it", "THREE~1"))
				d.put(11, set(newUKI, "LOAM-N~2.EFI"))
				d.put(15, set(newGood, "LOAM-N~3.EFI"))
			}),
			want: Report{
				Straddling:  []string{"EFI/Linux/" + newGood},
				Places:      places - 3,
				PlacesAtEnd: places - 3,
			},
			after: Report{
				Straddling:  []string{"EFI/Linux/" + newGood},
				Places:      places - 3,
				PlacesAtEnd: places - 3,
			},
		},
		{
			name: "an end of EFI/Linux that moved on",
			damage: slots("EFI/Linux", func(d *directory) {
				for slot := 8; slot < 99; slot++ {
					d.at(slot)[0] = dirent.Free
				}
			}),
			want: Report{Places: places, PlacesAtEnd: (2048 - 99) / 4},
		},
		{
			name:   "not unmounted, says Linux",
			damage: func(t *testing.T, m *memory, _ *FS) { poke(t, m, 65, 1) },
			want:   Report{Dirty: []string{"offset 65"}},
			after:  Report{Dirty: []string{"offset 65"}},
		},
		{
			name: "not unmounted, says Windows",
			damage: func(t *testing.T, m *memory, f *FS) {
				poke(t, m, f.fatAt(0)+4, 0xff, 0xff, 0xff, 0x07)
				poke(t, m, f.fatAt(1)+4, 0xff, 0xff, 0xff, 0x07)
			},
			want:  Report{Dirty: []string{"FAT 1"}},
			after: Report{Dirty: []string{"FAT 1"}},
		},
		{
			name: "no boot sector",
			damage: func(t *testing.T, m *memory, _ *FS) {
				poke(t, m, 0, make([]byte, sectorSize)...)
			},
			want: Report{BootSector: cmpopts.AnyError},
		},
		{
			name:   "a boot sector with clusters of another size",
			damage: func(t *testing.T, m *memory, _ *FS) { poke(t, m, 13, 8) },
			want:   Report{BootSector: cmpopts.AnyError},
		},
		{
			name: "no copy of the boot sector",
			damage: func(t *testing.T, m *memory, _ *FS) {
				poke(t, m, copySector*sectorSize, make([]byte, sectorSize)...)
			},
			want: Report{BootCopy: cmpopts.AnyError},
		},
		{
			name: "a copy of the boot sector with FATs of another size",
			damage: func(t *testing.T, m *memory, f *FS) {
				size := uint32(f.fatSize/sectorSize) + 8
				poke(t, m, copySector*sectorSize+36, binary.LittleEndian.AppendUint32(nil, size)...)
			},
			want: Report{BootCopy: cmpopts.AnyError},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, r := range []*Report{&tc.want, &tc.after} {
				if r.Places == 0 && tc.err == "" {
					r.Places = places
					r.PlacesAtEnd = places
				}
			}

			m := built(t)
			tc.damage(t, m, opened(t, m))
			f := opened(t, m)
			before := everything(f)

			if diff := cmp.Diff(tc.want, f.Check(), reports); diff != "" {
				t.Errorf("before:\n%s", diff)
			}

			writes := &recorder{Device: m}
			f = opened(t, writes)
			err := f.Reclaim()
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) ||
					len(writes.now)+len(writes.epochs) > 0 {
					t.Errorf("error %v, want %q, and nothing written", err, tc.err)
				}
				return
			}

			if err != nil {
				t.Fatal(err)
			}

			f = opened(t, m)
			if got := everything(f); got != before && !tc.changed {
				t.Errorf("the tree was\n%s\nand is\n%s", before, got)
			}
			if diff := cmp.Diff(tc.after, f.Check(), reports); diff != "" {
				t.Errorf("after:\n%s", diff)
			}

			writes.epochs = nil
			if err := opened(t, writes).Reclaim(); err != nil || len(writes.epochs) > 0 {
				t.Errorf("a second Reclaim writes: %d flushes, %v", len(writes.epochs), err)
			}

			if tc.after.Clean() {
				path := image(t)
				m.file(t, path)
				judge.Run(t, "fsck.fat", "-n", path)
			}
		})
	}
}

// reports compares messages by whether they contain the wanted text.
var reports = cmp.Options{
	cmpopts.EquateErrors(),
	cmp.Comparer(func(a, b []string) bool {
		return slices.EqualFunc(a, b, func(a, b string) bool {
			return strings.Contains(a, b) || strings.Contains(b, a)
		})
	}),
}

// everything is the names and what their content begins with.
func everything(f *FS) string {
	var b strings.Builder
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := f.ReadDir(dir)
		b.WriteString(dir + " " + errText(err) + "\n")
		for _, e := range entries {
			if e.Dir {
				walk(join(dir, e.Name))
				continue
			}

			r, err := f.Open(join(dir, e.Name))
			b.WriteString(join(dir, e.Name) + " " + errText(err))
			if err == nil {
				data, err := io.ReadAll(r)
				b.WriteString(string(data[:min(4, len(data))]) + errText(err))
			}

			b.WriteString("\n")
		}
	}

	walk("")
	return b.String()
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestReclaimRepairsFromTheOtherFAT(t *testing.T) {
	m := built(t)
	good := everything(opened(t, m))
	setFAT(0, second("EFI/Linux/"+oldUKI), 0)(t, m, opened(t, m))
	setFAT(1, second("EFI/BOOT/BOOTX64.EFI"), 0)(t, m, opened(t, m))
	setFAT(0, second("EFI/Linux"), 0)(t, m, opened(t, m))

	f := opened(t, m)
	_, err := f.Stage(strings.NewReader("x"), 1)
	if err == nil ||
		!strings.Contains(hint.Text(err), "Reclaim makes them equal") {
		t.Errorf("staged with FATs that differ: %v", err)
	}

	if err := f.Reclaim(); err != nil {
		t.Fatal(err)
	}
	if got := everything(opened(t, m)); got != good {
		t.Errorf("was\n%s\nis\n%s", good, got)
	}
	if r := f.Check(); !r.Clean() {
		t.Errorf("%+v", r)
	}
}

// TestCrossedEntries: what the other name refers to stays, whichever goes.
func TestCrossedEntries(t *testing.T) {
	for i := range 2 {
		m := built(t)
		names := []string{oldUKI, newGood}
		slots("EFI/Linux", func(d *directory) {
			e := d.entries[2]
			short := dirent.Pad("LOAM-N~2", "EFI")
			d.put(8,
				append(dirent.LongSlots(newGood, short),
					dirent.ShortSlot(short, dirent.AttrArchive, e.first, e.Size)...))
		})(t, m, opened(t, m))

		f := opened(t, m)
		diff := cmp.Diff([][2]string{{"EFI/Linux/" + oldUKI, "EFI/Linux/" + newGood}},
			f.Check().Crossed)
		if diff != "" {
			t.Error(diff)
		}

		if err := errors.Join(f.Reclaim(), f.Remove("EFI/Linux/"+names[i])); err != nil {
			t.Fatal(err)
		}

		f = opened(t, m)
		if data := content(t, f, "EFI/Linux/"+names[1-i]); !bytes.Equal(data, pattern(2, 30_000)) {
			t.Errorf("%d bytes", len(data))
		}
		if r := f.Check(); !r.Clean() {
			t.Errorf("%+v", r)
		}
	}
}

func TestReclaimFreesWhatWasStaged(t *testing.T) {
	f := opened(t, built(t))
	free := f.Free()
	c, err := f.Stage(strings.NewReader("abc"), 3)
	if err := errors.Join(err, f.Reclaim()); err != nil || f.Free() != free {
		t.Fatal(err, f.Free(), free)
	}

	if err := f.Link("loam", "X", c, 3); err == nil ||
		!strings.Contains(err.Error(), "not what was staged") {
		t.Errorf("linked: %v", err)
	}
}

// broken fails writes, flushes or reads back other bytes, from the nth call on.
type broken struct {
	*memory
	writes, syncs int
	lie           bool
}

func (b *broken) WriteAt(p []byte, off int64) (int, error) {
	b.writes--
	if b.writes == 0 {
		return 0, io.ErrShortWrite
	}
	if b.lie && len(p) == 8192 {
		p = bytes.ToUpper(p)
	}
	return b.memory.WriteAt(p, off)
}

func (b *broken) Sync() error {
	b.syncs--
	if b.syncs == 0 {
		return io.ErrClosedPipe
	}
	return nil
}

func TestNothingIsWrittenAfterAnError(t *testing.T) {
	for _, tc := range []struct {
		name string
		dev  broken
		err  string
	}{
		{"a write", broken{writes: 1}, "short write"},
		{"a write of a FAT", broken{writes: 2}, "FAT 2: write 512 bytes"},
		{"a flush", broken{syncs: 2}, "flush: "},
		{"a disk that lies", broken{lie: true}, "read back: SHA-256"},
	} {
		tc.dev.memory = built(t)
		f := opened(t, &tc.dev)
		_, err := f.Stage(strings.NewReader("abc"), 3)
		if err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.err)
		}

		if tc.dev.lie {
			continue
		}

		if err := f.WriteFile("loam/x", nil); err == nil ||
			!strings.Contains(err.Error(), "not written, after: ") {
			t.Errorf("%s: written after it: %v", tc.name, err)
		}
	}
}
