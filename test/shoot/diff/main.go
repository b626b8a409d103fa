// Command diff prints what nodes would do when their Gardener is updated: for
// each document that both of two versions render, the plan that leads from the
// older version's to the newer one's, as `loam plan` prints it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/plan"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/test/shoot"
)

func main() {
	versions := shoot.Versions()
	tree := flag.String("tree", os.Getenv("LOAM_ROOT_TREE"), "root `directory` of the image")
	from := flag.String("from", versions[1], "older `version` of Gardener")
	to := flag.String("to", versions[0], "newer `version` of Gardener")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	if err := run(ctx, os.Stdout, *tree, *from, *to); err != nil {
		fmt.Fprintln(os.Stderr, "diff:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, tree, from, to string) error {
	if tree == "" {
		return fmt.Errorf("no image to plan for\nhint: pass --tree, or run make gardener-diff")
	}

	image, err := os.OpenRoot(tree)
	if err != nil {
		return err
	}
	defer image.Close()

	older, err := byName(ctx, from)
	if err != nil {
		return err
	}

	newer, err := shoot.Render(ctx, os.Stderr, to)
	if err != nil {
		return err
	}

	// Most documents change alike: each plan is printed once.
	names := map[string][]string{}
	var plans []string
	for _, d := range newer {
		old, ok := older[d.Name]
		if !ok || d.Kind != shoot.Reconcile {
			continue
		}

		text := describe(ctx, image, old, d)
		if names[text] == nil {
			plans = append(plans, text)
		}

		names[text] = append(names[text], d.Name)
	}

	for _, text := range plans {
		fmt.Fprintf(out, "== %s\n%s\n", strings.Join(names[text], ", "), text)
	}

	return nil
}

// byName returns the version's documents for node agents.
func byName(ctx context.Context, version string) (map[string]shoot.Document, error) {
	documents, err := shoot.Render(ctx, os.Stderr, version)
	if err != nil {
		return nil, err
	}

	named := map[string]shoot.Document{}
	for _, d := range documents {
		if d.Kind == shoot.Reconcile {
			named[d.Name] = d
		}
	}

	return named, nil
}

// describe returns the plan from one document to another, or why it has none.
func describe(ctx context.Context, image *os.Root, from, to shoot.Document) string {
	have, err := manifest(ctx, image, from, 1)
	if err != nil {
		return fmt.Sprintf("the older document is refused: %v\n", err)
	}

	want, err := manifest(ctx, image, to, 2)
	if err != nil {
		return fmt.Sprintf("the newer document is refused: %v\n", err)
	}

	p := plan.Diff(have, want, nil)
	p.From = from.Version
	p.To = to.Version

	return p.String()
}

// manifest is the generation that a node makes of a document of its cluster.
func manifest(
	ctx context.Context, image *os.Root, d shoot.Document, number int,
) (generation.Manifest, error) {
	decoder := decode.Decoder{Hostname: "node-1", Contents: names{}, Image: image}
	desired, err := decoder.Decode(ctx,
		source.Document{Name: d.Name, Text: d.OSC, FromCluster: true})
	if err != nil {
		return generation.Manifest{}, err
	}

	vendor, err := generation.ReadVendor(image.FS(), desired)
	if err != nil {
		return generation.Manifest{}, err
	}

	tree, err := generation.Expand(desired, vendor)
	if err != nil {
		return generation.Manifest{}, err
	}

	return generation.Manifest{Number: number, Entries: tree.Entries, Units: tree.Units}, nil
}

// names are contents without the images: a file has changed if it comes from
// another image, or from another place in it.
type names struct{}

func (names) Secret(_ context.Context, name, key string) (config.Content, error) {
	return config.Text(name + " " + key), nil
}

func (names) Image(_ context.Context, ref, path string) (config.Content, error) {
	return config.Text(ref + " " + path), nil
}
