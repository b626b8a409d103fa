package fat

import (
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/partitions/device"
	"github.com/loam-os/loam/test/files"
)

// memory is a device in memory.
type memory struct {
	*device.Memory
	block int // it takes only what is aligned to it; 0: anything
}

func newMemory(size int64) *memory { return &memory{Memory: device.NewMemory(size)} }

func (m *memory) clone() *memory { return &memory{Memory: m.Memory.Clone()} }

func (m *memory) aligned(p []byte, off int64) bool {
	return m.block == 0 || (off%int64(m.block) == 0 && len(p)%m.block == 0)
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	if !m.aligned(p, off) {
		return 0, os.ErrInvalid
	}
	return m.Memory.ReadAt(p, off)
}

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	if !m.aligned(p, off) {
		return 0, os.ErrInvalid
	}
	return m.Memory.WriteAt(p, off)
}

// file writes the memory to a sparse file, for judges.
func (m *memory) file(t testing.TB, path string) {
	t.Helper()
	if err := m.WriteFile(path); err != nil {
		t.Fatal(err)
	}
}

// load reads what a judge left in the file.
func load(t testing.TB, path string) *memory {
	t.Helper()
	m, err := device.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &memory{Memory: m}
}

// bootDir is the directory of boot entries, as firmware/bootdir keeps it.
var bootDir = Uniform{Dir: bootentry.Dir, Slots: bootentry.Slots}

// renew makes the directory of boot entries again, as firmware/bootdir does.
func renew(f *FS) error {
	return f.RenewDir(bootentry.Dir, bootentry.DirSize, bootentry.Fillers()...)
}

const testSize = 520 << 20 // little more than the least that is FAT32 in clusters of 8 KiB

const (
	oldUKI  = "loam-node-os_0.1.0_x86-64.efi"
	newUKI  = "loam-node-os_0.2.0_x86-64+3-0.efi"
	newGood = "loam-node-os_0.2.0_x86-64.efi"
)

// pattern is content that is not the same anywhere.
func pattern(seed byte, size int) []byte {
	b := make([]byte, size)
	x := uint32(seed) + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// built returns an ESP as the builder makes it, builtFor for disks with sectors
// of that size.
func built(t testing.TB) *memory { t.Helper(); return builtFor(t, sectorSize) }

func builtFor(t testing.TB, sector int) *memory {
	t.Helper()
	m := newMemory(testSize)
	err := esp.Write(m, testSize, sector, 7, []esp.File{
		{Path: "EFI/BOOT/BOOTX64.EFI", Data: pattern(1, 20_000)},
		{Path: "EFI/Linux/" + oldUKI, Data: pattern(2, 30_000)},
		{Path: "EFI/staging/README", Data: pattern(3, 10)},
		{Path: "loader/loader.conf", Data: []byte("timeout 0\n")},
		{Path: "loam/machine.yaml", Data: pattern(4, 9000)},
	})
	if err != nil {
		t.Fatal(err)
	}

	return m
}

func opened(t testing.TB, d device.Device) *FS {
	t.Helper()
	f, err := Open(d, testSize, 512, bootDir)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// tree is a file system's paths with a hash of the content; directories end in
// a slash.
type tree map[string]uint64

func (t tree) equal(o tree) bool { return maps.Equal(t, o) }

// treeOf reads everything, each directory and file once.
func treeOf(f *FS, seed maphash.Seed) (tree, error) {
	t := tree{}
	return t, t.read(f, "", f.root, seed, make([]byte, 4096))
}

func (t tree) read(f *FS, dir string, first uint32, seed maphash.Seed, buf []byte) error {
	d, err := f.enter(dir, first)
	if err != nil {
		return err
	}

	for _, e := range d.entries {
		path := join(dir, e.Name)
		if e.Dir {
			t[path+"/"] = 0
			if err := t.read(f, path, e.first, seed, buf); err != nil {
				return err
			}
			continue
		}

		r, err := f.reader(e)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}

		var h maphash.Hash
		h.SetSeed(seed)
		if _, err := io.CopyBuffer(&h, r, buf); err != nil {
			return err
		}

		t[path] = h.Sum64()
	}

	return nil
}

// content reads a file.
func content(t testing.TB, f *FS, path string) []byte {
	t.Helper()
	r, err := f.Open(path)
	if err != nil {
		t.Fatal(err)
	}

	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}

	return data
}

// image is a path for a judge's copy.
func image(t testing.TB) string { return filepath.Join(files.Dir(t), "esp") }
