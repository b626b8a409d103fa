package agent

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/source"
)

// Notes come and go with the document, and the cluster is told of them once.
func TestNotesBelongToTheDocument(t *testing.T) {
	warn := func(line int) config.Note {
		return config.Note{Reason: config.NoteWarning, Document: "test.yaml", Line: line, Path: "spec.later", Problem: "unknown field", Hint: "leave it out"}
	}
	ssh := config.Note{Reason: config.NoteNoSSH, Problem: "SSH access: none"}
	notes := map[string][]config.Note{
		"one": {ssh, warn(4), warn(5)}, "one again": {ssh, warn(4), warn(5)}, "two": nil, "three": {warn(4)},
	}

	w, cluster := newWorld(), &recorder{}
	w.notes, w.cluster = notes, cluster
	shown := map[string][]config.Note{}
	w.text = "one"
	run(t, w, func(settle func()) {
		shown["one"] = w.last().Notes
		for _, text := range []string{"one again", "bad", "two", "three", ""} {
			w.text = text
			w.source <- struct{}{}
			settle()
			shown[text] = w.last().Notes
		}
	})
	if diff := cmp.Diff(map[string][]config.Note{
		"one": notes["one"], "one again": notes["one"], "bad": nil, "two": nil, "three": notes["three"], "": nil,
	}, shown); diff != "" {
		t.Errorf("notes by document (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"ConfigurationWarning: test.yaml:4 spec.later: unknown field (and 1 more: loam status)",
		"NoSSHAccess: SSH access: none",
		"ConfigurationWarning: test.yaml:4 spec.later: unknown field",
	}, cluster.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// What a person wrote is refused for what is only noted of a document from a
// cluster.
func TestDecodeIsStrictWithPersons(t *testing.T) {
	image, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	const text = "apiVersion: extensions.gardener.cloud/v1alpha1\nkind: OperatingSystemConfig\nspec:\n  later: 1\n  units:\n" +
		"  - {name: gardener-user.service}\n  - {name: a.service, dropIns: [{name: a.conf, content: x=1}]}\n"
	doc := source.Document{Name: "d.yaml", Text: []byte(text)}

	_, err = Decoder{Image: image}.Decode(context.Background(), doc)
	if err == nil || !strings.HasPrefix(err.Error(), "d.yaml:4: spec.later: unknown field; hint: ") || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("of a person: %v", err)
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
	if _, err = (Decoder{Image: image}).Decode(context.Background(), doc); err == nil || strings.Contains(err.Error(), "later") || !strings.Contains(err.Error(), "spec.units[1].name") {
		t.Errorf("what cannot be carried out: %v", err)
	}
}
