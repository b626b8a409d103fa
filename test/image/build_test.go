// Package image tests a finished build, the directory in LOAM_BUILD: what real
// tools say of it, what its root file system must and must not hold, that a
// second build has the same bytes, and that verification finds every change.
package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/test/judge"
)

// build is a finished build.
type build struct {
	dir      string
	manifest manifest.Manifest
}

func open(t *testing.T, dir string) build {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, image.ManifestName))
	if err != nil {
		t.Fatal(err)
	}

	m, err := manifest.Decode(text)
	if err != nil {
		t.Fatal(err)
	}

	return build{dir, m}
}

// underTest is the build that `make test` has made.
func underTest(t *testing.T) build {
	t.Helper()
	return open(t, judge.Dir(t, "LOAM_BUILD"))
}

// name is the name of the file with the suffix.
func (b build) name(t *testing.T, suffix string) string {
	t.Helper()
	for _, f := range b.manifest.Files {
		if strings.HasSuffix(f.Name, suffix) {
			return f.Name
		}
	}
	t.Fatalf("no file *%s in the manifest", suffix)
	return ""
}

func (b build) file(t *testing.T, suffix string) string {
	t.Helper()
	return filepath.Join(b.dir, b.name(t, suffix))
}

// partition finds the first partition with that role.
func (b build) partition(t *testing.T, role partitions.Role) manifest.Partition {
	t.Helper()
	for _, p := range b.manifest.Partitions {
		if p.Type == partitions.TypeUUID(role, b.manifest.Arch) {
			return p
		}
	}
	t.Fatalf("no partition of type %v", role)
	return manifest.Partition{}
}

// rootUUID is the first half of the root hash, as the Discoverable Partitions
// Specification has it; written out, not by the code under test.
func (b build) rootUUID() uuid.UUID { return uuid.MustParse(b.manifest.RootHash[:32]) }

// copySparse copies a file and its holes.
func copySparse(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "--sparse=always", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
}
