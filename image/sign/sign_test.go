package sign

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/output"
	"github.com/loam-os/loam/test/keys"
)

// TestSigningSaysWhatItBegins: the last line is where it failed.
func TestSigningSaysWhatItBegins(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "build")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}

	const program = "loam_1.0.0_x86-64.efi"
	m := manifest.Manifest{
		Format:   manifest.Format,
		RootHash: strings.Repeat("a", 64),
		Files:    []manifest.File{{Name: program}},
	}
	if err := output.WriteManifest(dir, m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, program), []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}

	var said steps
	by := Keys{Programs: keys.New(t, "owner").Signer}
	_, err := Into(t.Context(), dir+".new", dir, by, &said)
	if err == nil {
		t.Fatal("signed what is no program")
	}
	want := steps{"sign the root hash", "sign " + program}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("(-want +have)\n%s", diff)
	}
}

// steps implements [Listener].
type steps []string

// Doing implements [Listener].
func (s *steps) Doing(what string) { *s = append(*s, what) }

// Progress implements [Listener].
func (s *steps) Progress(string, int64, int64) {}
