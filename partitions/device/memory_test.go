package device

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

var (
	_ Device = (*Memory)(nil)
	_ Device = (*os.File)(nil)
)

// content reads all of a device.
func content(t *testing.T, m *Memory) []byte {
	t.Helper()
	b := bytes.Repeat([]byte{0xff}, int(m.Size()))
	if n, err := m.ReadAt(b, 0); n != len(b) || err != nil {
		t.Fatalf("read %d of %d bytes: %v", n, len(b), err)
	}
	return b
}

// written returns a device of two pages and a half with text across the first
// two, and what it should read as.
func written(t *testing.T) (*Memory, []byte) {
	t.Helper()
	const at = pageSize - 3
	m := NewMemory(2*pageSize + pageSize/2)
	want := make([]byte, m.Size())
	copy(want[at:], "across")
	if n, err := m.WriteAt([]byte("across"), at); n != 6 || err != nil {
		t.Fatalf("wrote %d bytes: %v", n, err)
	}
	return m, want
}

func TestMemoryReadsWhatWasWritten(t *testing.T) {
	m, want := written(t)
	if got := content(t, m); !bytes.Equal(got, want) {
		t.Error("the device reads as something else")
	}
}

func TestMemoryHasAnEnd(t *testing.T) {
	for _, test := range []struct {
		name   string
		off    int64
		length int
		want   error
	}{
		{name: "up to the end", off: 5000, length: 1000},
		{name: "nothing at the end", off: 6000},
		{
			name:   "beyond the end",
			off:    5001,
			length: 1000,
			want:   io.ErrUnexpectedEOF,
		},
		{
			name:   "before the start",
			off:    -1,
			length: 1,
			want:   io.ErrUnexpectedEOF,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := NewMemory(6000)
			b := bytes.Repeat([]byte{1}, test.length)
			if _, err := m.WriteAt(b, test.off); !errors.Is(err, test.want) {
				t.Errorf("write: %v, want %v", err, test.want)
			}
			if _, err := m.ReadAt(b, test.off); !errors.Is(err, test.want) {
				t.Errorf("read: %v, want %v", err, test.want)
			}
			if test.want != nil && bytes.Contains(content(t, m), []byte{1}) {
				t.Error("part of the write was done")
			}
		})
	}
}

func TestMemoryCloneChangesIndependently(t *testing.T) {
	m, want := written(t)
	clone := m.Clone()
	if _, err := clone.WriteAt([]byte("other"), pageSize); err != nil {
		t.Fatal(err)
	}
	if got := content(t, m); !bytes.Equal(got, want) {
		t.Error("a write to the clone changed the original")
	}
	if got := content(t, clone); bytes.Equal(got, want) {
		t.Error("a write to the clone did not change it")
	}
}

func TestMemoryAsAFile(t *testing.T) {
	m, want := written(t)
	if _, err := m.WriteAt([]byte("end"), m.Size()-3); err != nil {
		t.Fatal(err)
	}
	copy(want[len(want)-3:], "end")

	name := filepath.Join(t.TempDir(), "device")
	if err := m.WriteFile(name); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(name); err != nil || !bytes.Equal(data, want) {
		t.Errorf("the file has another content: %v", err)
	}

	back, err := ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := content(t, back); !bytes.Equal(got, want) {
		t.Error("the file reads as another device")
	}
}
