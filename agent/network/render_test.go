package network_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/network"
)

// TestRenderGolden: each archive has a machine.yaml and the files that networkd
// gets for it; `make golden` writes them.
func TestRenderGolden(t *testing.T) {
	found, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(found) == 0 {
		t.Fatal("no archives", err)
	}

	for _, name := range found {
		t.Run(filepath.Base(name), func(t *testing.T) {
			have, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}

			m, err := machine.Decode("machine.yaml", have.Files[0].Data)
			if err != nil {
				t.Fatal(err)
			}

			want := txtar.Archive{Files: have.Files[:1]}
			files := network.Render(m.Network)
			for _, name := range slices.Sorted(maps.Keys(files)) {
				want.Files = append(want.Files, txtar.File{Name: name, Data: []byte(files[name])})
			}

			text := txtar.Format(&want)
			if os.Getenv("LOAM_GOLDEN") != "" {
				if err := os.WriteFile(name, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}

			if diff := cmp.Diff(string(text), string(txtar.Format(have))); diff != "" {
				t.Errorf("%s: Render (-now +golden):\n%s", name, diff)
			}
		})
	}
}

func TestNoNetworkIsTheImages(t *testing.T) {
	if files := network.Render(network.Config{}); files != nil {
		t.Errorf("%v", files)
	}
}

func TestKeptFilesStayInTheirDirectory(t *testing.T) {
	for _, text := range []string{
		`{"files": {"../a.network": ""}}`, `{"files": {"/a": ""}}`, `{"files": {"": ""}}`,
		`{"files": {".": ""}}`, `{`, `{"files": []}`,
	} {
		if files, err := network.ParseFiles([]byte(text)); err == nil {
			t.Errorf("%s: %v", text, files)
		}
	}
}
