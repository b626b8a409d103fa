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

func TestEveryCommandPrintsJSON(t *testing.T) {
	docs.Formats(t, root(), "../..", map[string]string{
		"build":             "it makes files, of which manifest.json has the facts",
		"bundle":            "it makes a repository, of which metadata/ has the facts",
		"flash":             "it asks a person; inspect -o json says what is in an image",
		"judges":            "it makes files",
		"keys":              "it makes files",
		"kubernetes bundle": "it makes a repository, of which metadata/ has the facts",
		"machine sign":      "it prints a machine.yaml; machine check -o json has its facts",
		"osc render":        "it prints a Secret, as YAML",
		"permit":            "it makes a file, which is JSON",
		"pubkey":            "it prints a key, as PEM",
		"publish":           "it copies files",
		"run":               "it shows the console of a machine",
		"schema":            "it prints nothing but JSON",
		"serve":             "it runs until it is stopped, and logs",
		"withdraw":          "it changes a repository, of which waves -o json has the facts",
		"sign":              "it makes files; verify -o json says who has signed them",
	})
}

func TestEveryFlagIsCompleted(t *testing.T) { docs.Completion(t, root(), flags()) }
