package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/test/shoot"
)

// TestDocumentsOfGardenerAreValid has the command validate what Gardener's own
// code makes of Shoots: the objects of a seed, and what nodes read of the
// Secrets.
func TestDocumentsOfGardenerAreValid(t *testing.T) {
	for _, version := range shoot.Versions() {
		dir := t.TempDir()
		args := []string{"osc", "validate"}
		for _, d := range shoot.DocumentsOf(t, version) {
			forms := map[string][]byte{"object": d.Object, "osc": d.OSC, "secret": d.Secret}
			for form, text := range forms {
				if text == nil {
					continue
				}

				file := filepath.Join(dir, d.Kind+"-"+d.Name+"-"+form+".yaml")
				if err := os.WriteFile(file, text, 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, file)
			}
		}

		var out bytes.Buffer
		cmd := root()
		cmd.SetArgs(args)
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Errorf("Gardener %s: %v\n%s", version, err, &out)
		}
		if valid := bytes.Count(out.Bytes(), []byte(": valid")); valid != len(args)-2 || valid < 90 {
			t.Errorf("Gardener %s: %d of %d documents are valid", version, valid, len(args)-2)
		}
	}
}
