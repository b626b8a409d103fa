package qcow2

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/test/judge"
)

const mib = 1 << 20

// chunk is data in an otherwise empty disk.
type chunk struct {
	off  int64
	data []byte
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{9}).Read(b)
	return b
}

// raw makes a sparse disk with the chunks.
func raw(t *testing.T, size int64, chunks []chunk) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "raw"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })

	err = f.Truncate(size)
	for _, c := range chunks {
		_, e := f.WriteAt(c.data, c.off)
		err = errors.Join(err, e)
	}
	if err != nil {
		t.Fatal(err)
	}

	return f
}

// converted is the qcow2 image of a disk.
func converted(t *testing.T, src *os.File, size int64) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "qcow2"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Write(f, src, size), f.Close()); err != nil {
		t.Fatal(err)
	}

	return f.Name()
}

func TestQemuImg(t *testing.T) {
	for _, tc := range []struct {
		name   string
		size   int64
		chunks []chunk
	}{
		{"empty disk", 8 << 30, nil},
		{"less than a cluster", 512, []chunk{{0, []byte("loam")}}},
		{"data at both ends", 3 << 30, []chunk{{0, noise(3 * mib)}, {3<<30 - 1, []byte{1}}}},
		{
			"several L2 tables, one unused",
			2 << 30,
			[]chunk{{511 * mib, noise(2 * mib)}, {1600 * mib, noise(70_000)}},
		},
		{"end inside a cluster", 10*mib + 512, []chunk{{10 * mib, noise(512)}}},
		{"written zeros", 10 * mib, []chunk{{mib, make([]byte, mib)}, {3 * mib, noise(1)}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := raw(t, tc.size, tc.chunks)
			img := converted(t, src, tc.size)
			out := judge.Run(t, "qemu-img", "check", "-f", "qcow2", img)
			if !strings.Contains(out, "No errors were found") {
				t.Errorf("qemu-img check:\n%s", out)
			}

			judge.Run(t, "qemu-img", "compare", "-f", "raw", "-F", "qcow2", src.Name(), img)
			size := fmt.Sprintf("(%d bytes)", tc.size)
			if out := judge.Run(t, "qemu-img", "info", "-f", "qcow2",
				img); !strings.Contains(out, size) {
				t.Errorf("qemu-img info:\n%s", out)
			}
		})
	}
}

func TestHolesDoNotMatter(t *testing.T) {
	chunks := []chunk{{5 * mib, noise(mib)}}
	sparse := converted(t, raw(t, 64*mib, chunks), 64*mib)
	full := converted(t,
		raw(t, 64*mib, append([]chunk{{0, make([]byte, 64*mib)}}, chunks...)), 64*mib)
	a, errA := os.ReadFile(sparse)
	b, errB := os.ReadFile(full)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("with and without holes: not the same bytes (%v, %v)", errA, errB)
	}

	if want := (1 + 1 + 1 + 1 + 1 + 16) * clusterSize; len(a) != want {
		t.Errorf("1 MiB of data takes %d bytes, want %d", len(a), want)
	}
}

// TestLayoutCountsItself: the refcounts cover all of the file, their own blocks
// included, also where one cluster more needs another block.
func TestLayoutCountsItself(t *testing.T) {
	for n := int64(refcounts - 12); n < refcounts+3; n++ {
		data := make([]int64, n)
		for i := range data {
			data[i] = int64(i)
		}

		l, err := newLayout(8<<30, data)
		if err != nil {
			t.Fatal(err)
		}
		if c := l.clusters(); c > l.blocks*refcounts || c <= (l.blocks-1)*refcounts {
			t.Errorf("%d data clusters: %d clusters, %d refcount blocks", n, c, l.blocks)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	src := raw(t, mib, nil)
	for _, tc := range []struct {
		name string
		size int64
		err  string
	}{
		{"no disk", 0, "want a multiple of 512"},
		{"negative size", -512, "want a multiple of 512"},
		{"half a sector", 1000, "want a multiple of 512"},
		{"more than the file", mib + 512, "has 1048576 bytes, the disk has 1049088"},
	} {
		if err := Write(nil, src, tc.size); err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.err)
		}
	}

	if _, err := newLayout(maxSize+512, nil); err == nil {
		t.Error("a disk of more than 16 TiB was accepted")
	}
}
