package fat

import (
	"io"
	"testing"

	"github.com/loam-os/loam/partitions/fat/dirent"
)

// FuzzOpen: whatever is in the boot sector, a FAT and directories, everything
// ends, and Reclaim leaves what entries refer to.
func FuzzOpen(f *testing.F) {
	disk := built(f)
	fs := opened(f, disk)
	dir, err := fs.directory("EFI/Linux")
	if err != nil {
		f.Fatal(err)
	}

	boot := make([]byte, sectorSize)
	if _, err := disk.ReadAt(boot, 0); err != nil {
		f.Fatal(err)
	}

	used := 0
	for c := range fs.fat.used(fs.last()) {
		used = int(c)
	}

	f.Add(boot, []byte(fs.fat[:4*used+4]), []byte(fs.fat[:4*used+4]), dir.raw[:16*dirent.SlotSize])
	f.Add(boot[:0], []byte{1}, []byte{}, dir.raw[4*dirent.SlotSize:12*dirent.SlotSize])

	f.Fuzz(func(t *testing.T, boot, fat1, fat2, dir []byte) {
		m := disk.clone()
		for _, part := range []struct {
			off  int64
			data []byte
		}{
			{0, boot[:min(len(boot), sectorSize)]},
			{fs.fatAt(0), fat1[:min(int64(len(fat1)), fs.fatSize)]},
			{fs.fatAt(1), fat2[:min(int64(len(fat2)), fs.fatSize)]},
			{fs.offset(2), dir[:min(int64(len(dir)), 4*fs.clusterSize)]},
		} {
			if _, err := m.WriteAt(part.data, part.off); err != nil {
				t.Fatal(err)
			}
		}

		f, err := Open(m, testSize, 512, bootDir)
		if err != nil {
			return
		}

		whole := len(f.Check().Broken) == 0
		before := readable(f)

		if err := f.Reclaim(); err != nil {
			return
		}

		f, err = Open(m, testSize, 512, bootDir)
		if err != nil {
			t.Fatal(err)
		}
		if r := f.Check(); whole && r.Leaked+r.FATsDiffer+r.LooseSlots > 0 {
			t.Errorf("after reclaim: %+v", r)
		}

		after := readable(f)
		for path := range before {
			if !after[path] {
				t.Errorf("%q could be read before Reclaim", path)
			}
		}
	})
}

// readable are the files, of the first thousand, that can be read.
func readable(f *FS) map[string]bool {
	files := map[string]bool{}
	seen := 0
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := f.ReadDir(dir)
		for _, e := range entries {
			seen++
			if seen > 1000 || err != nil {
				return
			}
			if e.Dir && len(dir) < 100 {
				walk(join(dir, e.Name))
			} else if r, err := f.Open(join(dir, e.Name)); err == nil {
				_, err := io.CopyN(io.Discard, r, 100_000)
				files[join(dir, e.Name)] = err == nil || err == io.EOF
			}
		}
	}

	walk("")
	return files
}
