package sparse

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const mib = 1 << 20

func TestData(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	want := []Extent{{mib, 2 * mib}, {4 * mib, 5 * mib}}

	if err := f.Truncate(8 * mib); err != nil {
		t.Fatal(err)
	}

	for _, e := range want {
		if _, err := f.WriteAt(make([]byte, mib), e.Start); err != nil {
			t.Fatal(err)
		}
	}

	for size, want := range map[int64][]Extent{
		8 * mib: want, 4*mib + 4096: {want[0], {4 * mib, 4*mib + 4096}}, 4 * mib: want[:1],
		mib: nil, 0: nil,
	} {
		if got, err := Data(f, size); err != nil || !slices.Equal(got, want) {
			t.Errorf("of %d bytes: %v, want %v, %v", size, got, want, err)
		}
	}

	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Data(f, mib); err == nil {
		t.Error("a closed file has data")
	}
}

// TestWriteMakesHoles of zeros, and the same bytes.
func TestWriteMakesHoles(t *testing.T) {
	want := make([]byte, 3*mib+100)
	want[mib+5] = 1
	want[len(want)-1] = 1

	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	if size, err := Write(f, bytes.NewReader(want)); err != nil || size != int64(len(want)) {
		t.Fatal(size, err)
	}

	if have, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(have, want) {
		t.Errorf("%d other bytes, %v", len(have), err)
	}

	all, err := Data(f, int64(len(want)))
	if len(all) != 2 || all[0] != (Extent{mib, mib + 4096}) || err != nil {
		t.Errorf("data at %v, %v", all, err)
	}
}

// TestWriteOfWhatIsCutOff is an error, and no shorter file.
func TestWriteOfWhatIsCutOff(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(make([]byte, mib)); err != nil {
		t.Fatal(err)
	}

	if err := z.Close(); err != nil {
		t.Fatal(err)
	}

	packed.Truncate(packed.Len() - 100)
	r, err := gzip.NewReader(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if size, err := Write(f, r); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes, error %v", size, err)
	}
}
