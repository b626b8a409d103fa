package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/test/files"
)

func TestAConfigurationWithErrorsDisturbsNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	image, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()

	d := decode.Decoder{Hostname: "me", Image: image}
	got, err := Classify(t.Context(), d, apply.Planner{}, []byte("spec: ["), content.Directory{})
	if err != nil || got != turns.None {
		t.Errorf("%s %v", got, err)
	}
}

// What is only looked at brings its own mirrors, too, and leaves those of the
// configuration that the node wants where they are.
func TestClassifyKeepsTheMirrorsOfTheNode(t *testing.T) {
	n := unidentified(t)
	n.image = files.Root(t)
	const theirs = decode.PreparedHosts + "/registry.invalid/hosts.toml"
	files.Write(t, filepath.Join(n.Root, theirs), "theirs")

	digest := strings.Repeat("0", 64)
	classify := classifier(n.decoding().pending(imagePolicy(n.machine)), n.planner())
	_, err := classify(t.Context(), []byte(`apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
spec:
  criConfig:
    name: containerd
    containerd:
      sandboxImage: registry.invalid/pause:3.10
      registries: [{upstream: registry.invalid, hosts: [{url: "https://mirror.invalid"}]}]
  files:
  - path: /opt/bin/tool
    content: {imageRef: {image: "registry.invalid/a@sha256:`+digest+`", filePathInImage: /tool}}
`), content.Directory{})
	if err == nil {
		t.Error("there is no such image")
	}

	text, err := n.root.ReadFile(decode.PendingHosts[1:] + "/registry.invalid/hosts.toml")
	if err != nil || !strings.Contains(string(text), "https://mirror.invalid") {
		t.Errorf("its mirrors: %q, %v", text, err)
	}
	if text, err := n.root.ReadFile(theirs[1:]); err != nil || string(text) != "theirs" {
		t.Errorf("the node's mirrors: %q, %v", text, err)
	}
}
