package decode

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/test/files"
)

// An operator's document is refused for a problem that is only a note in a
// document of a cluster.
func TestDecodeIsStrictWithOperators(t *testing.T) {
	image := files.Root(t)
	const text = "apiVersion: extensions.gardener.cloud/v1alpha1\nkind: OperatingSystemConfig\nspec:\n  later: 1\n  units:\n" +
		"  - {name: gardener-user.service}\n  - {name: a.service, dropIns: [{name: a.conf, content: x=1}]}\n"
	doc := source.Document{Name: "d.yaml", Text: []byte(text)}

	_, err := Decoder{Image: image}.Decode(context.Background(), doc)
	if err == nil ||
		!strings.HasPrefix(err.Error(), "d.yaml:4: spec.later: unknown field; hint: ") ||
		strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("of an operator: %v", err)
	}

	doc.FromCluster = true
	desired, err := Decoder{Image: image}.Decode(context.Background(), doc)
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	for _, n := range desired.Notes {
		notes = append(notes, n.Reason+" "+n.String())
	}
	if diff := cmp.Diff([]string{
		"NoSSHAccess SSH access: this image has no SSH server, so it goes without gardener-user.service",
		"ConfigurationWarning d.yaml:4 spec.later: unknown field",
		`ConfigurationWarning d.yaml:7 spec.units[1].dropIns[0].content: line 1: "x=1" comes before any section`,
	}, notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}

	doc.Text = []byte(strings.Replace(text, "a.service", "a", 1))
	_, err = (Decoder{Image: image}).Decode(context.Background(), doc)
	if err == nil || strings.Contains(err.Error(), "later") ||
		!strings.Contains(err.Error(), "spec.units[1].name") {
		t.Errorf("what cannot be carried out: %v", err)
	}
}

// manyFiles is a document of n files.
func manyFiles(n int) []byte {
	var text bytes.Buffer
	text.WriteString("apiVersion: extensions.gardener.cloud/v1alpha1\nkind: OperatingSystemConfig\nspec:\n  files:\n")
	for i := range n {
		fmt.Fprintf(
			&text,
			"  - path: /etc/many/%03d\n    content: {inline: {data: %q}}\n",
			i,
			fmt.Sprint("file ", i),
		)
	}
	return text.Bytes()
}

func TestTheSameTextIsNotDecodedAgain(t *testing.T) {
	image := files.Root(t)
	d, doc := Decoder{
		Image: image,
		Cache: &Cache{},
	}, source.Document{Name: "osc.yaml", Text: manyFiles(200)}
	first, err := d.Decode(t.Context(), doc)
	if err != nil {
		t.Fatal(err)
	}
	uncached := testing.AllocsPerRun(3, func() {
		d.Cache = &Cache{}
		_, _ = d.Decode(t.Context(), doc)
	})
	cached := testing.AllocsPerRun(3, func() { _, _ = d.Decode(t.Context(), doc) })
	if cached > uncached/4 {
		t.Errorf("%v allocations for the same text, %v for another", cached, uncached)
	}
	if same, err := d.Decode(t.Context(), doc); err != nil || same.Digest() != first.Digest() {
		t.Errorf("the same text is another configuration: %v", err)
	}

	doc.Text = manyFiles(201)
	if other, err := d.Decode(t.Context(), doc); err != nil || len(other.Files) != 201 {
		t.Errorf("another text: %d files, %v", len(other.Files), err)
	}
	doc.Text = []byte("kind: Something\n")
	for range 2 {
		if _, err := d.Decode(t.Context(), doc); err == nil {
			t.Error("what is wrong with a text was forgotten")
		}
	}
}

func TestTheImageIsAskedOnceForItsContainerd(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "etc/containerd/config.toml")
	if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte("version = 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	image, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()

	d, doc := Decoder{
		Image: image,
		Cache: &Cache{},
	}, source.Document{Name: "osc.yaml", Text: manyFiles(1)}
	if _, err := d.Decode(t.Context(), doc); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(config); err != nil {
		t.Fatal(err)
	}

	base, err := d.Cache.observe(image)
	if err != nil || string(base.Config) != "version = 2\n" {
		t.Errorf("asked again: %q, %v", base.Config, err)
	}
}
