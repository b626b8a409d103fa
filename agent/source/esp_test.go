package source_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/image/esp"
)

func TestESPIsReadWithoutAMount(t *testing.T) {
	name := filepath.Join(t.TempDir(), "esp")
	const size = 528 << 20
	f, err := os.Create(name)
	if err == nil {
		err = errors.Join(f.Truncate(size),
			esp.Write(f, size, 512, 1,
				[]esp.File{
					{Path: "loam/machine.yaml", Data: []byte("kind: Machine\n")},
				}), f.Close())
	}

	if err != nil {
		t.Fatal(err)
	}

	p := source.Partition{Device: name}
	for _, path := range []string{"/loam/machine.yaml", "/LOAM/Machine.YAML"} {
		// FAT is not case-sensitive.
		r, err := p.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || string(text) != "kind: Machine\n" {
			t.Errorf("%s: %q %v", path, text, err)
		}
	}
	if _, err := p.Open("/loam/other.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}

	if _, err := (source.Partition{Device: name + "1"}).Open("/loam/machine.yaml"); err == nil ||
		errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), name+"1") {
		t.Errorf("a missing partition: %v", err)
	}
}

// TestARedactedFileLeavesNoTrace of what it had, not even in free clusters.
func TestARedactedFileLeavesNoTrace(t *testing.T) {
	const secret = "bootstrapToken: abcdef.0123456789abcdef"
	name := filepath.Join(t.TempDir(), "esp")
	const size = 528 << 20
	f, err := os.Create(name)
	if err == nil {
		err = errors.Join(f.Truncate(size), esp.Write(f, size, 512, 1, []esp.File{
			{Path: "loam/machine.yaml", Data: []byte(strings.Repeat("#\n", 9000) + secret)},
			{Path: "loam/other", Data: []byte("other")},
		}), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}

	p := source.Partition{Device: name}
	if err := p.Redact("/loam/machine.yaml", []byte("kind: Machine\n")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/loam/machine.yaml": "kind: Machine\n",
		"/loam/other":        "other",
	} {
		r, err := p.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}

	all, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	buf := make([]byte, 1<<20)
	for {
		n, err := all.Read(buf)
		if strings.Contains(string(buf[:n]), secret) {
			t.Fatal("the secret is still on the partition")
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
