package shoot

import (
	"context"
	"os"
	"testing"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/test/judge"
)

// A node takes every document that Gardener sends, and makes a generation of
// it.
func TestNodesAcceptDocuments(t *testing.T) {
	image, err := os.OpenRoot(judge.Dir(t, "LOAM_ROOT_TREE"))
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()

	for _, version := range Versions() {
		for _, d := range DocumentsOf(t, version) {
			if d.Kind != Reconcile {
				continue
			}
			t.Run(version+"/"+d.Name, func(t *testing.T) {
				decoder := decode.Decoder{Hostname: "node-1", Contents: anything{}, Image: image}
				desired, err := decoder.Decode(t.Context(),
					source.Document{Name: d.Name, Text: d.OSC, FromCluster: true})
				if err != nil {
					t.Fatal(err)
				}

				vendor, err := generation.ReadVendor(image.FS(), desired)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := generation.Expand(desired, vendor); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// The extension of the operating system also gets an OperatingSystemConfig, even
// for a first boot.
func TestObjectsOfTheSeedAreValid(t *testing.T) {
	for _, version := range Versions() {
		for _, d := range DocumentsOf(t, version) {
			t.Run(version+"/"+d.Kind+"/"+d.Name, func(t *testing.T) {
				object, wrong := osc.Decode(d.Name, d.Object)
				_, refusal := document.Lenient(osc.Check(wrong, object, osc.Env{}))
				if refusal != nil {
					t.Error(refusal)
				}
			})
		}
	}
}

// anything has all Secrets and images.
type anything struct{}

func (anything) Secret(context.Context, string, string) (config.Content, error) {
	return config.Text("secret"), nil
}

func (anything) Image(context.Context, string, string) (config.Content, error) {
	return config.Text("binary"), nil
}
