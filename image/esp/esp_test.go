package esp

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/partitions/fat/dirent"
	"github.com/loam-os/loam/test/judge"
)

const gib = 1 << 30

// sampleFiles are an ESP as the builder makes it.
func sampleFiles() []File {
	data := make([]byte, 3_000_001)
	rand.NewChaCha8([32]byte{3}).Read(data)
	clear(data[100_000:900_000])
	return []File{
		{Path: "EFI/BOOT/BOOTX64.EFI", Data: data[:120_000]},
		{Path: "loader/loader.conf", Data: []byte("timeout 0\n")},
		{Path: "loader/entries.srel", Data: []byte("type1\n")},
		{Path: "EFI/Linux/loam-node-os_0.1.0_x86-64+3-0.efi", Data: data},
		{Path: "EFI/Linux/loam-node-os_0.0.9_x86-64.efi", Data: data[7:]},
		{Path: "EFI/systemd/systemd-bootx64.efi", Data: data[:clusterSize]},
		{Path: "loam/empty"},
	}
}

// eachSectorSize runs a test for the sectors of both kinds of disks.
func eachSectorSize(t *testing.T, test func(t *testing.T, sectorSize int)) {
	for _, size := range []int{512, 4096} {
		t.Run(fmt.Sprint("sectors of ", size), func(t *testing.T) { test(t, size) })
	}
}

// written is a disk image with the files, sparse.
func written(t *testing.T, sectorSize int, files []File) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "esp"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })

	err = errors.Join(f.Truncate(gib), Write(f, gib, sectorSize, 0x4c4f414d, files))
	if err != nil {
		t.Fatal(err)
	}

	return f
}

func TestReadWhatWriteWrote(t *testing.T) { eachSectorSize(t, readsWhatWriteWrote) }

func readsWhatWriteWrote(t *testing.T, sectorSize int) {
	f := written(t, sectorSize, sampleFiles())
	for _, want := range sampleFiles() {
		if len(want.Data) == 0 {
			continue // mtools reads it below
		}
		got, err := Read(f, sectorSize, want.Path)
		if err != nil || !bytes.Equal(got, want.Data) {
			t.Errorf("%s: %d bytes, want %d; error %v", want.Path, len(got), len(want.Data), err)
		}
	}
	if _, err := Read(f, sectorSize, "EFI/Linux/absent.efi"); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestContentIsWrittenAsDataIs(t *testing.T) {
	const sectorSize = 512
	want := written(t, sectorSize, sampleFiles())

	files := sampleFiles()
	for i, f := range files {
		files[i].Data = nil
		files[i].Content = io.NewSectionReader(bytes.NewReader(f.Data), 0, int64(len(f.Data)))
	}
	have := written(t, sectorSize, files)

	var sums [2][sha256.Size]byte
	for i, f := range []*os.File{want, have} {
		h := sha256.New()
		if _, err := io.Copy(h, io.NewSectionReader(f, 0, 16<<20)); err != nil {
			t.Fatal(err)
		}
		sums[i] = [sha256.Size]byte(h.Sum(nil))
	}
	if sums[0] != sums[1] {
		t.Error("the bytes differ")
	}

	large := sampleFiles()[3]
	r, err := Open(have, sectorSize, large.Path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, large.Data) {
		t.Errorf("%s: %d bytes, want %d; error %v", large.Path, len(got), len(large.Data), err)
	}
}

func TestWriteIsTheSameForAnyOrder(t *testing.T) {
	sum := func(files []File) [32]byte {
		h := sha256.New()
		_, err := io.Copy(h, io.NewSectionReader(written(t, 512, files), 0, 64<<20))
		if err != nil {
			t.Fatal(err)
		}
		return [32]byte(h.Sum(nil))
	}

	files := sampleFiles()
	a := sum(files)
	slices.Reverse(files)
	if sum(files) != a {
		t.Error("another order of files gives other bytes")
	}
}

// TestBootDirRules checks what makes counting boot tries safe: see the package
// comment.
func TestBootDirRules(t *testing.T) { eachSectorSize(t, bootDirRules) }

func bootDirRules(t *testing.T, sectorSize int) {
	g, err := newGeometry(gib, sectorSize)
	if err != nil {
		t.Fatal(err)
	}
	if g.offset(2)%clusterSize != 0 || g.fat(0)%4096 != 0 || g.fat(1)%4096 != 0 {
		t.Errorf("geometry %+v: data at %d is not aligned", g, g.offset(2))
	}

	root, err := newTree(sampleFiles())
	if err != nil {
		t.Fatal(err)
	}

	fat, err := g.place(root)
	if err != nil {
		t.Fatal(err)
	}

	boot := root.child("EFI").child("Linux")
	chain := 1
	for c := boot.first; fat[c] != endOfChain; c = fat[c] {
		chain++
	}
	if chain*clusterSize != 64<<10 {
		t.Errorf("the chain of %s is %d clusters", bootentry.Dir, chain)
	}

	dir := boot.directory()
	if len(dir) != 12*dirent.SlotSize { // . .. two fillers, and two names of four slots
		t.Fatalf("%d directory entries", len(dir)/dirent.SlotSize)
	}

	for slot := 4; slot < 12; slot += 4 {
		if dir[slot*dirent.SlotSize] != 0x43 ||
			dir[(slot+3)*dirent.SlotSize+11] != dirent.AttrArchive {
			t.Errorf("slot %d does not begin a set of four", slot)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		size  int64
		files []File
		err   string
	}{
		{"too small for FAT32", 400 << 20, nil, "FAT32 has at least 65525"},
		{"no whole sectors", gib + 1, nil, "whole sectors"},
		{"negative", -512, nil, "whole sectors"},
		{"same name in another case", gib, []File{{Path: "a/B"}, {Path: "A/b"}}, "there already"},
		{"a name of a filler", gib, []File{{Path: "EFI/Linux/filler0"}}, "there already"},
		{"file as directory", gib, []File{{Path: "a"}, {Path: "a/b"}}, "a is a file"},
		{"up", gib, []File{{Path: "../b"}}, "only dots"},
		{"absolute", gib, []File{{Path: "/b"}}, "empty"},
		{"forbidden character", gib, []File{{Path: "a:b"}}, "cannot be in a FAT file name"},
		{
			"more than fits",
			520 << 20,
			[]File{{Path: "a", Data: make([]byte, 530<<20)}},
			"files take",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := Write(discard{}, tc.size, 512, 0, tc.files)
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

// discard takes writes and forgets them.
type discard struct{}

func (discard) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

func TestShortNames(t *testing.T) {
	dir := &node{dir: true}
	for _, name := range []string{
		"LOADER~1.CON", "loader.conf", "loader.confx", "BOOTX64.EFI", "a.b.c", ".x", "FILLER0",
		"loam-1.efi", "loam-2.efi",
	} {
		dir.children = append(dir.children, &node{name: name})
	}

	if err := dir.nameChildren(); err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, c := range dir.children {
		got = append(got, string(c.short[:]))
	}

	want := []string{
		"LOADER~1CON", "LOADER~2CON", "LOADER~3CON", "BOOTX64 EFI", "AB~1    C  ", "X~1        ",
		"FILLER0    ", "LOAM-1~1EFI", "LOAM-2~1EFI",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestFsckAndMtools(t *testing.T) { eachSectorSize(t, fsckAndMtools) }

func fsckAndMtools(t *testing.T, sectorSize int) {
	f := written(t, sectorSize, sampleFiles())
	out := judge.Run(t, "fsck.fat", "-n", "-v", f.Name())
	if !strings.Contains(out, "8192 bytes per cluster") ||
		!strings.Contains(out, fmt.Sprint(sectorSize, " bytes per logical sector")) ||
		strings.Contains(out, "differ") || strings.Contains(out, "wrong") {
		t.Errorf("fsck.fat:\n%s", out)
	}

	for _, want := range sampleFiles() {
		got := filepath.Join(t.TempDir(), "copy")
		judge.Run(t, "mcopy", "-i", f.Name(), "::"+want.Path, got)
		if data, err := os.ReadFile(got); err != nil || !bytes.Equal(data, want.Data) {
			t.Errorf("mcopy %s: %d bytes, error %v", want.Path, len(data), err)
		}
	}

	out = judge.Run(t, "mdir", "-i", f.Name(), "::EFI/Linux")
	if !strings.Contains(out, "1980-01-01") {
		t.Errorf("mdir:\n%s", out)
	}
}
