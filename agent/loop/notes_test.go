package loop

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
)

// Notes come and go with the document, and the cluster is told of them once.
func TestNotesBelongToTheDocument(t *testing.T) {
	warn := func(line int) config.Note {
		return config.Note{
			Reason:   config.NoteWarning,
			Document: "test.yaml",
			Line:     line,
			Path:     "spec.later",
			Problem:  "unknown field",
			Hint:     "leave it out",
		}
	}
	ssh := config.Note{Reason: config.NoteNoSSH, Problem: "SSH access: none"}
	notes := map[string][]config.Note{
		"one": {
			ssh,
			warn(4),
			warn(5),
		}, "one again": {ssh, warn(4), warn(5)}, "two": nil, "three": {warn(4)},
	}

	w, cluster := newFakeNode(), &recorder{}
	w.notes, w.cluster = notes, cluster
	shown := map[string][]config.Note{}
	w.text = "one"
	run(t, w, func(wait func()) {
		shown["one"] = w.last().Notes
		for _, text := range []string{"one again", "bad", "two", "three", ""} {
			w.text = text
			w.source <- struct{}{}
			wait()
			shown[text] = w.last().Notes
		}
	})
	if diff := cmp.Diff(map[string][]config.Note{
		"one":       notes["one"],
		"one again": notes["one"],
		"bad":       nil,
		"two":       nil,
		"three":     notes["three"],
		"":          nil,
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
