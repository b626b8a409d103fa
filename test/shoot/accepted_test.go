package shoot

import (
	"context"
	"os"
	"slices"
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

// Once a self-hosted Shoot is connected, the node writes the tokens of its static
// pods, where earlier documents have files. A path that is synced is not taken
// away with such a file (test/recorded).
func TestTokensOfStaticPodsAreSynced(t *testing.T) {
	image, err := os.OpenRoot(judge.Dir(t, "LOAM_ROOT_TREE"))
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()

	documents := Documents(t)
	i := slices.IndexFunc(documents, func(d Document) bool {
		return d.Kind == Reconcile && d.Name == "control-plane-tokens"
	})
	if i < 0 {
		t.Fatal("there is no such document")
	}

	decoder := decode.Decoder{Hostname: "node-1", Contents: anything{}, Image: image}
	desired, err := decoder.Decode(t.Context(),
		source.Document{Name: "osc.yaml", Text: documents[i].OSC, FromCluster: true})
	if err != nil {
		t.Fatal(err)
	}

	earlier := 0
	for _, file := range documents[i].Base.Files {
		if slices.Contains(desired.Synced, file.Path) {
			earlier++
		}
	}
	if earlier != 2 {
		t.Errorf("%d files become tokens, of the synced paths %q", earlier, desired.Synced)
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
