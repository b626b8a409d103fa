package pxe

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/manifest"
)

// write makes a build whose files have their names as content, with a manifest
// that edit changes.
func write(t *testing.T, edit func(*manifest.Manifest)) string {
	t.Helper()
	dir := t.TempDir()
	m := manifest.Manifest{
		Format:      manifest.Format,
		ImageID:     "loam",
		Version:     "1",
		Arch:        "amd64",
		Profile:     "metal",
		RootHash:    "amd64-hash",
		LiveCmdline: "quiet",
	}

	for _, end := range served {
		name := "loam" + end
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		m.Files = append(m.Files,
			manifest.File{
				Name:   name,
				Size:   int64(len(name)),
				SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(name))),
			})
	}

	edit(&m)
	text, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}

	return dir
}

func TestOpenRefuses(t *testing.T) {
	for _, test := range []struct {
		name    string
		edit    func(*manifest.Manifest)
		wantErr string
	}{
		{"a file that is not of this build", func(m *manifest.Manifest) {
			m.Files[0].SHA256 = strings.Repeat("0", 64)
		}, "is not the file that manifest.json is of"},
		{"a file that is cut off", func(m *manifest.Manifest) {
			m.Files[0].Size++
		}, "is not the file that manifest.json is of"},
		{"a build without files", func(m *manifest.Manifest) { m.Files = nil }, "has no file *"},
		{"a file from elsewhere", func(m *manifest.Manifest) {
			for i := range m.Files {
				m.Files[i].Name = "../" + m.Files[i].Name
			}
		}, "has no file *"},
		{"a file that is gone", func(m *manifest.Manifest) {
			for i := range m.Files {
				m.Files[i].Name = "x" + m.Files[i].Name
			}
		}, "no such file"},
	} {
		dir := write(t, test.edit)
		_, err := Open(dir)
		if err == nil || !strings.Contains(err.Error(), test.wantErr) ||
			!strings.Contains(hint.Text(err), "\nhint: loamctl build --out "+dir) {
			t.Errorf("%s: error %v", test.name, err)
		}
	}

	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is no build") {
		t.Errorf("no build: %v", err)
	}
}
