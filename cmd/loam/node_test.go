package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/source"
)

// cmdGeneration is `generation ROOT NUMBER FILE` of scripts: beneath ROOT, what
// FILE says becomes the current generation, of that number.
func cmdGeneration(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: generation ROOT NUMBER FILE")
	}

	number, err := strconv.Atoi(args[1])
	ts.Check(err)
	doc := source.Document{
		Name: "/efi/loam/" + filepath.Base(args[2]),
		Text: []byte(ts.ReadFile(args[2])),
	}

	ts.Check(addGeneration(ts.MkAbs(args[0]), number, doc))
}

// addGeneration writes a generation of OS version 1.2.3 as the agent would, and
// makes it the current one. The image has no units.
func addGeneration(root string, number int, doc source.Document) error {
	dir := filepath.Join(root, generation.Dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	image, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer image.Close()

	desired, err := decode.Decoder{
		Hostname: "node-1",
		Image:    image,
	}.Decode(context.Background(), doc)
	if err != nil {
		return err
	}

	tree, err := generation.Expand(desired, generation.Vendor{})
	if err != nil {
		return err
	}

	state, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer state.Close()

	store := generation.Open(durable.New(state, nil))
	m := generation.Manifest{
		Number:    number,
		Digest:    desired.Digest(),
		OSVersion: "1.2.3",
		Source:    doc.Name,
		Entries:   tree.Entries,
		Units:     tree.Units,
	}

	return errors.Join(store.Write(m, tree.Content), store.Activate(m.OSVersion, m.Name()))
}

// writeFile writes a file of a node and the directories above it.
func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
