package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/test/shoot"
)

// Everything that Gardener's own code renders is valid: what node agents get,
// and the objects that extensions see, also for new machines.
func TestRenderedDocumentsOfGardenerAreValid(t *testing.T) {
	for _, version := range shoot.Versions() {
		for _, d := range shoot.DocumentsOf(t, version) {
			texts := map[string][]byte{"object": d.Object}
			if d.OSC != nil {
				texts["osc"] = d.OSC
			}

			for kind, text := range texts {
				t.Run(version+"/"+d.Kind+"/"+d.Name+"/"+kind, func(t *testing.T) {
					file := filepath.Join(t.TempDir(), "osc.yaml")
					err := os.WriteFile(file, text, 0o600)
					if err != nil {
						t.Fatal(err)
					}

					if f := validate(file, false); !f.Valid {
						t.Error(f.fault)
					}
				})
			}
		}
	}
}
