package output

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestPackedHolesAreZeros, wherever they are; and holes do not change what is
// packed.
func TestPackedHolesAreZeros(t *testing.T) {
	const mib = 1 << 20
	text := bytes.Repeat([]byte("loam\n"), 2*mib/5)
	for name, at := range map[string][]int64{
		"at the end":   {0, 5 * mib},
		"at the start": {8*mib - int64(len(text))},
		"all of it":    nil,
		"none":         {0, 2 * mib, 4 * mib, 6 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			whole := make([]byte, 8*mib)
			dir := t.TempDir()

			for _, off := range at {
				copy(whole[off:], text)
			}

			sparse := filepath.Join(dir, "sparse")
			full := filepath.Join(dir, "full")

			f, err := os.Create(sparse)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()

			for _, off := range at {
				if _, err := f.WriteAt(text, off); err != nil {
					t.Fatal(err)
				}
			}

			if err := f.Truncate(int64(len(whole))); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(full, whole, 0o600); err != nil {
				t.Fatal(err)
			}

			var packed [2][]byte
			for i, raw := range []string{sparse, full} {
				if err := Convert(raw+".zst", raw, Packed, io.Discard); err != nil {
					t.Fatal(err)
				}
				packed[i], err = os.ReadFile(raw + ".zst")
				if err != nil {
					t.Fatal(err)
				}
			}

			if !bytes.Equal(packed[0], packed[1]) {
				t.Error("packed with and without holes, it is not the same")
			}

			z, err := zstd.NewReader(bytes.NewReader(packed[0]))
			if err != nil {
				t.Fatal(err)
			}
			defer z.Close()

			if have, err := io.ReadAll(z); err != nil || !bytes.Equal(have, whole) {
				t.Errorf("%d bytes, %v", len(have), err)
			}
		})
	}
}
