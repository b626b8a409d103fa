package fat

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/test/judge"
)

// step is one operation of a script.
type step struct {
	name string
	do   func(f *FS) error
}

// put stages and links.
func put(dir, name string, data []byte) func(*FS) error {
	return func(f *FS) error {
		c, err := f.Stage(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return err
		}
		return f.Link(dir, name, c, int64(len(data)))
	}
}

// script is an update, its blessing, the next one, and small files: in all,
// every operation in every kind of place.
func script() []step {
	steps := []step{
		{"stage and link a UKI", put(bootentry.Dir, newUKI, pattern(10, 40_000))},
		{"a try is counted", func(f *FS) error {
			return f.Rename(bootentry.Dir, newUKI, "loam-node-os_0.2.0_x86-64+2-1.efi", false)
		}},
		{"bless it", func(f *FS) error {
			return f.Rename(bootentry.Dir, "loam-node-os_0.2.0_x86-64+2-1.efi", newGood, false)
		}},
		{"write a small file", func(f *FS) error {
			return f.WriteFile("loam/boot.json", pattern(11, 300))
		}},
		{"write it again, longer", func(f *FS) error {
			return f.WriteFile("loam/boot.json", pattern(12, 36_000))
		}},
		{"write it again, empty", func(f *FS) error { return f.WriteFile("loam/boot.json", nil) }},
		{"write it again", func(f *FS) error {
			return f.WriteFile("loam/boot.json", pattern(13, 100))
		}},
		{"remove the old UKI", func(f *FS) error { return f.Remove("EFI/Linux/" + oldUKI) }},
		{
			"link a UKI into the hole",
			put(bootentry.Dir, "loam-node-os_0.3.0_x86-64+3-0.efi", pattern(14, 40_000)),
		},
		{"make a directory", func(f *FS) error { return f.Mkdir("EFI/recovery") }},
		{"write into it", func(f *FS) error {
			return f.WriteFile("EFI/recovery/RECOVERY.EFI", pattern(15, 33_000))
		}},
		{"a long name after it", func(f *FS) error {
			return f.WriteFile("EFI/recovery/"+strings.Repeat("long", 20), pattern(16, 1))
		}},
		{"remove the small file", func(f *FS) error { return f.Remove("loam/boot.json") }},
		{"a name in the root directory", func(f *FS) error {
			return f.WriteFile("loam.marker", pattern(17, 5))
		}},
		{"take the second name back", func(f *FS) error {
			return f.Remove("EFI/Linux/loam-node-os_0.3.0_x86-64+3-0.efi")
		}},
		{"link it again", put(
			bootentry.Dir,
			"loam-node-os_0.3.1_x86-64+3-0.efi",
			pattern(19, 9000),
		)},
		{
			"and one more, at the end",
			put(bootentry.Dir, "loam-node-os_0.3.2_x86-64+3-0.efi", pattern(20, 9000)),
		},
		{"remove from the end", func(f *FS) error {
			return f.Remove("EFI/Linux/loam-node-os_0.3.2_x86-64+3-0.efi")
		}},
		{"update the loader's settings", func(f *FS) error {
			return f.WriteFile("loader/loader.conf", []byte("timeout 1\n"))
		}},
		{"write the machine's document", func(f *FS) error {
			return f.WriteFile("loam/machine.yaml", pattern(21, 8192))
		}},
		{"stage for nothing", func(f *FS) error {
			_, err := f.Stage(bytes.NewReader(pattern(18, 9000)), 9000)
			return err
		}},
		{"reclaim", (*FS).Reclaim},
	}

	for _, name := range []string{"one.txt", "two.txt", "three.txt", "four.txt", "five.txt"} {
		// over a sector's end
		steps = append(steps,
			step{"write " + name, func(f *FS) error {
				return f.WriteFile("EFI/recovery/"+name, []byte(name))
			}})
	}
	return steps
}

func TestJudgesAfterEveryStep(t *testing.T) {
	for _, block := range []int{512, 4096} {
		m := builtFor(t, block)
		m.block = block

		path := image(t)
		for _, s := range script() {
			f, err := Open(m, testSize, block, bootDir)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.do(f); err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			if s.name == "stage for nothing" {
				continue // the next step frees it
			}

			if r := f.Check(); !r.Clean() {
				t.Errorf("%s: %+v", s.name, r)
			}

			m.file(t, path)
			out := judge.Run(t, "fsck.fat", "-n", path)
			if strings.Contains(out, "differ") ||
				strings.Contains(out, "rong") {
				t.Errorf("%s, blocks of %d: fsck.fat:\n%s", s.name, block, out)
			}
		}

		again, err := Open(m, testSize, block, bootDir)
		if err != nil {
			t.Fatal(err)
		}

		for _, name := range []string{
			"EFI/Linux/" + newGood, "EFI/recovery/RECOVERY.EFI", "loam/machine.yaml",
			"EFI/recovery/five.txt",
		} {
			out := filepath.Join(t.TempDir(), "copy")
			judge.Run(t, "mcopy", "-i", path, "::"+name, out)
			data, err := os.ReadFile(out)
			if err != nil || !bytes.Equal(data, content(t, again, name)) {
				t.Errorf("mcopy %s: %d bytes, %v", name, len(data), err)
			}
		}
	}
}

func TestReadsWhatMtoolsWrote(t *testing.T) {
	path := image(t)
	built(t).file(t, path)

	local := filepath.Join(t.TempDir(), "local")
	if err := os.WriteFile(local, pattern(1, 50_000), 0o600); err != nil {
		t.Fatal(err)
	}

	want := []string{
		"UPPER.TXT", "lower.txt", "Mixed.Txt", "A long name with spaces.efi", "naïve ☃.txt",
		"loam-node-os_0.9.0_x86-64+3-0.efi",
	}

	for _, name := range want {
		judge.Run(t, "mcopy", "-i", path, local, "::EFI/staging/"+name)
	}

	f := opened(t, load(t, path))
	entries, err := f.ReadDir("EFI/staging")
	if err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, e := range entries[1:] {
		got = append(got, e.Name)
		data := content(t, f, "EFI/staging/"+strings.ToUpper(e.Name))
		if !bytes.Equal(data, pattern(1, 50_000)) {
			t.Errorf("%s: %d bytes", e.Name, len(data))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	if r := f.Check(); len(r.Broken)+len(r.Crossed)+r.Leaked+r.LooseSlots != 0 {
		t.Errorf("%+v", r)
	}
}

func TestRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(f *FS) error
		err  string
		is   error
	}{
		{
			"a name that is there in another case",
			put(bootentry.Dir, strings.ToUpper(oldUKI), nil),
			"exists",
			fs.ErrExist,
		},
		{"a name that is another's short one", put(bootentry.Dir, "LOAM-N~1.EFI", nil), "4", nil},
		{
			"a short name that is there",
			func(f *FS) error {
				return f.Mkdir("LOADER~1")
			},
			"exist",
			fs.ErrExist,
		},
		{
			"a name of three slots among UKIs",
			put(bootentry.Dir, "loam-0.2.0_x86-64.efi", nil),
			"takes 3 directory slots",
			nil,
		},
		{
			"a name longer than a sector",
			put("loam", strings.Repeat("x", 200), nil),
			"takes 17 directory slots",
			nil,
		},
		{"a forbidden character", put("loam", "a?b", nil), "cannot be in a FAT file name", nil},
		{
			"a rename to other slots",
			func(f *FS) error {
				return f.Rename(bootentry.Dir, oldUKI, "BOOT.EFI", false)
			},
			"takes 1 directory slots, it has 4",
			nil,
		},
		{
			"a rename to a name that is there",
			func(f *FS) error {
				return f.Rename("", "loader", "Loam", false)
			},
			"",
			fs.ErrExist,
		},
		{
			"a rename of nothing",
			func(f *FS) error {
				return f.Rename(bootentry.Dir, newUKI, newGood, false)
			},
			newUKI,
			fs.ErrNotExist,
		},
		{
			"to remove a directory",
			func(f *FS) error {
				return f.Remove("EFI/staging")
			},
			"is a directory",
			nil,
		},
		{
			"to remove what is not there",
			func(f *FS) error {
				return f.Remove("EFI/x")
			},
			"EFI/x",
			fs.ErrNotExist,
		},
		{
			"to write a directory",
			func(f *FS) error {
				return f.WriteFile("EFI/staging", nil)
			},
			"is a directory",
			nil,
		},
		{
			"to write below a file",
			func(f *FS) error {
				return f.WriteFile("EFI/BOOT/BOOTX64.EFI/x", []byte("x"))
			},
			"is not a directory",
			nil,
		},
		{"a directory in none", func(f *FS) error { return f.Mkdir("a/b") }, "a:", fs.ErrNotExist},
		{
			"content that ends early",
			func(f *FS) error {
				_, err := f.Stage(strings.NewReader("short"), 6)
				return err
			},
			"byte 0: unexpected EOF",
			nil,
		},
		{
			"more than is free",
			func(f *FS) error {
				_, err := f.Stage(strings.NewReader(""), 600<<20)
				return err
			},
			"are free",
			nil,
		},
		{
			"more than a file can have",
			func(f *FS) error {
				_, err := f.Stage(strings.NewReader(""), 4<<30)
				return err
			},
			"4294967295",
			nil,
		},
		{
			"another size than was staged",
			func(f *FS) error {
				c, err := f.Stage(strings.NewReader("abc"), 3)
				if err != nil {
					return err
				}
				return errors.Join(f.Link("loam", "x", c, 2), f.Discard(c))
			},
			"2 bytes are not what was staged",
			nil,
		},
		{
			"a second name",
			func(f *FS) error {
				c, err := f.Stage(strings.NewReader("abc"), 3)
				if err != nil {
					return err
				}
				return errors.Join(f.Link("loam", "X", c, 3), f.Remove("loam/X"),
					f.Link("loam", "Y", c, 3))
			},
			"or it is linked",
			nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := built(t)
			f := opened(t, m)
			free := f.Free()

			err := tc.do(f)
			if err == nil || !strings.Contains(err.Error(), tc.err) ||
				(tc.is != nil && !errors.Is(err, tc.is)) {
				t.Errorf("error %v, want %q", err, tc.err)
			}

			if r := opened(t, m).Check(); !r.Clean() || f.Free() != free {
				t.Errorf("%d bytes less free; %+v", free-f.Free(), r)
			}
		})
	}
}

func TestFullDirectory(t *testing.T) {
	m := built(t)
	f := opened(t, m)
	for i := 0; ; i++ {
		name := strings.Replace(newUKI, "0.2.0",
			"1."+string(rune('a'+i/26/26))+string(rune('a'+i/26%26))+string(rune('a'+i%26)), 1)
		err := put(bootentry.Dir, name, nil)(f)
		if errors.Is(err, ErrDirFull) {
			if i != 64<<10/32/4-2 { // one is taken, and the places of . .. and the fillers
				t.Errorf("full after %d", i)
			}
			break
		}
		if err != nil || i > 600 {
			t.Fatal(i, err)
		}
	}

	if r := f.Check(); !r.Clean() || r.Places != 0 || r.PlacesAtEnd != 0 {
		t.Errorf("%+v", r)
	}
	if err := f.Remove("EFI/Linux/" + oldUKI); err != nil {
		t.Fatal(err)
	}
	if r := f.Check(); r.Places != 1 || r.PlacesAtEnd != 0 {
		t.Errorf("%+v", r)
	}

	path := image(t)
	m.file(t, path)
	judge.Run(t, "fsck.fat", "-n", path)
}

func TestTheCopyOfTheBootSectorIsFound(t *testing.T) {
	for _, sector := range []int{512, 4096} {
		m := builtFor(t, sector)
		want := everything(opened(t, m))
		poke(t, m, 0, make([]byte, sectorSize)...)

		f := opened(t, m)
		if got := everything(f); got != want || f.Check().BootSector == nil {
			t.Errorf("sectors of %d: %s\nwant %s", sector, got, want)
		}
	}
}
