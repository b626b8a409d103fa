package main

import (
	"testing"

	"github.com/loam-os/loam/test/docs"
)

func TestReferenceIsTheHelpOfEveryCommand(t *testing.T) {
	docs.Golden(
		t,
		"../..",
		"docs/reference/loamctl.md",
		docs.Reference(root(), "the commands in cmd/loamctl"),
	)
}

func TestCommandLinesInTheDocumentationExist(t *testing.T) {
	pages, err := docs.Pages("../..")
	if err != nil {
		t.Fatal(err)
	}
	lines := docs.Lines(pages, "loamctl")
	if len(lines) < 20 {
		t.Fatalf("found %d command lines in the documentation, want 20 or more", len(lines))
	}

	for _, line := range lines {
		if err := line.Try(root()); err != nil {
			t.Errorf("%s: loamctl %q: %v", line.At, line.Args, err)
		}
	}
}

func TestManPagesOfEveryCommand(t *testing.T) { docs.Man(t, root(), "1", "../..") }

func TestHelpOfEveryCommand(t *testing.T) { docs.Help(t, root()) }
