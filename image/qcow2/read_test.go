package qcow2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/test/judge"
)

func TestReadWhatWriteWrote(t *testing.T) {
	src := raw(t, 600*mib+512,
		[]chunk{{0, noise(mib)}, {511 * mib, noise(3 * mib)}, {600 * mib, noise(512)}})
	reads(t, converted(t, src, 600*mib+512), src)
}

// TestReadWhatQemuImgWrote reads every kind of disk that qemu-img writes.
func TestReadWhatQemuImgWrote(t *testing.T) {
	const size = 40*mib + 512
	text := bytes.Repeat([]byte("loam "), mib)
	src := raw(t, size, []chunk{{0, text}, {8*mib + 300, noise(3 * mib)}, {40 * mib, noise(512)}})

	for name, args := range map[string][]string{
		"version 2":         {"-o", "compat=0.10"},
		"version 3":         nil,
		"small clusters":    {"-o", "cluster_size=512"},
		"large clusters":    {"-o", "cluster_size=2M"},
		"compressed":        {"-c"},
		"compressed, 2 MiB": {"-c", "-o", "cluster_size=2M"},
		"zstd":              {"-c", "-o", "compression_type=zstd"},
		"preallocated":      {"-o", "preallocation=metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "qcow2")
			judge.Run(t, "qemu-img",
				append(append([]string{"convert", "-f", "raw", "-O", "qcow2"}, args...),
					src.Name(), file)...)
			reads(t, file, src)
		})
	}
}

// reads fails unless file reads as the disk src.
func reads(t *testing.T, file string, src *os.File) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	q, err := NewReader(f)
	if err != nil {
		t.Fatal(err)
	}

	info, err := src.Stat()
	if err != nil || q.Size() != info.Size() {
		t.Fatalf("disk of %d bytes, want %d, %v", q.Size(), info.Size(), err)
	}

	have := make([]byte, 3*mib-7)
	want := make([]byte, 3*mib-7)
	for off := int64(0); off < q.Size(); off += int64(len(want)) {
		n, _ := src.ReadAt(want, off)
		got, err := q.ReadAt(have, off)
		if got != n || !bytes.Equal(have[:n], want[:n]) ||
			(n < len(want) && !errors.Is(err, io.EOF)) {
			t.Fatalf("at %d: %d bytes of %d are as they should be, %v", off, got, n, err)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	src := raw(t, mib, []chunk{{0, noise(mib)}})
	good, err := os.ReadFile(converted(t, src, mib))
	if err != nil {
		t.Fatal(err)
	}

	for _, tc := range []struct {
		name, err string
		at        int
		value     uint32
	}{
		{"another magic", "magic", 0, 1},
		{"a version to come", "version 4", 4, 4},
		{"a backing file", "backing file", 12, 200},
		{"clusters of a gigabyte", "clusters of 1<<30", 20, 30},
		{"a disk without end", "bytes", 24, 1 << 30},
		{"encryption", "encrypted", 32, 2},
		{"a table that is too short", "table of 0 entries", 36, 0},
		{"data elsewhere", "features 0x4", 76, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bad := bytes.Clone(good)
			binary.BigEndian.PutUint32(bad[tc.at:], tc.value)
			_, err := NewReader(bytes.NewReader(bad))
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%v, want %q", err, tc.err)
			}
		})
	}

	for _, cut := range []int{mib + 5, 5} {
		q, err := NewReader(bytes.NewReader(good[:len(good)-cut]))
		if err == nil {
			_, err = q.ReadAt(make([]byte, mib), 0)
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a file without its last %d bytes reads as a disk: %v", cut, err)
		}
	}
}
