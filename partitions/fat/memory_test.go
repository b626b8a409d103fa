package fat

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/image/esp"
)

const pageSize = 4096

// memory is a Device of zeros, but for its pages.
type memory struct {
	size  int64
	block int // it takes only what is aligned to it; 0: anything
	pages map[int64][]byte
}

func newMemory(size int64) *memory { return &memory{size: size, pages: map[int64][]byte{}} }

func (m *memory) clone() *memory {
	c := newMemory(m.size)
	for at, page := range m.pages {
		c.pages[at] = bytes.Clone(page)
	}
	return c
}

// each calls do for the part of p in every page.
func (m *memory) each(p []byte, off int64, do func(page, in int64, part []byte)) (int, error) {
	if off < 0 || off+int64(len(p)) > m.size {
		return 0, io.ErrUnexpectedEOF
	}
	if m.block != 0 && (off%int64(m.block) != 0 || len(p)%m.block != 0) {
		return 0, os.ErrInvalid
	}

	for n := 0; n < len(p); {
		in := (off + int64(n)) % pageSize
		part := p[n:min(len(p), n+int(pageSize-in))]
		do((off+int64(n))/pageSize, in, part)
		n += len(part)
	}

	return len(p), nil
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	return m.each(p, off, func(page, in int64, part []byte) {
		if have := m.pages[page]; have != nil {
			copy(part, have[in:])
		} else {
			clear(part)
		}
	})
}

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	return m.each(p, off, func(page, in int64, part []byte) {
		if m.pages[page] == nil {
			m.pages[page] = make([]byte, pageSize)
		}
		copy(m.pages[page][in:], part)
	})
}

func (m *memory) Sync() error { return nil }

// file is the memory as a sparse file, for judges.
func (m *memory) file(t testing.TB, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	if err := f.Truncate(m.size); err != nil {
		t.Fatal(err)
	}

	for at, page := range m.pages {
		if _, err := f.WriteAt(page, at*pageSize); err != nil {
			t.Fatal(err)
		}
	}
}

// load reads the pages that a judge left in the file.
func load(t testing.TB, path string) *memory {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	m := newMemory(int64(len(data)))
	for at := int64(0); at < m.size; at += pageSize {
		if page := data[at : at+pageSize]; bytes.Count(page, []byte{0}) < pageSize {
			m.pages[at/pageSize] = bytes.Clone(page)
		}
	}

	return m
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

func opened(t testing.TB, d Device) *FS {
	t.Helper()
	f, err := Open(d, testSize, 512)
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
	return t, t.read(f, "", f.root, seed, make([]byte, pageSize))
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
func image(t testing.TB) string { return filepath.Join(t.TempDir(), "esp") }
