package inspect

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/loam-os/loam/image/meter"
)

// packedDisk returns a file with a packed disk of zeros, and the size of both.
func packedDisk(t *testing.T) (file string, packed, disk int64) {
	t.Helper()
	const size = 4 << 20
	var text bytes.Buffer
	z, err := zstd.NewWriter(&text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}

	file = filepath.Join(t.TempDir(), "disk.raw.zst")
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, int64(text.Len()), size
}

func TestUnpackingIsReported(t *testing.T) {
	file, packed, size := packedDisk(t)
	var part string
	var done, all int64
	s, err := OpenSource(t.Context(), file, func(p string, d, a int64) { part, done, all = p, d, a })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	if s.Size != size {
		t.Errorf("unpacked %d bytes, want %d", s.Size, size)
	}
	if part != "unpack" || done != packed || all != packed {
		t.Errorf("reported %d of %d bytes as %q, want %d as \"unpack\"", done, all, part, packed)
	}
}

func TestUnpackingEndsWithItsContext(t *testing.T) {
	file, _, _ := packedDisk(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := OpenSource(ctx, file, meter.None)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
