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
