package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/test/shoot"
)

// defaultWorker is the document of a pool of defaults. SSH makes no difference,
// as nodes leave it out.
const defaultWorker = "defaults"

// imageUnits are the units that the document changes and that images have.
var imageUnits = []string{"containerd.service", "systemd-sysctl.service"}

// measureGardener measures the first apply of a document that Gardener
// rendered.
func measureGardener(ctx context.Context, r *report) error {
	text, err := worker(ctx)
	if err != nil {
		return err
	}

	var costs []cost
	for range repeats {
		c, err := firstWorker(ctx, text)
		if err != nil {
			return err
		}
		costs = append(costs, c)
	}

	total := func(c cost) float64 { return float64(c.total) / float64(time.Millisecond) }
	limit := fmt.Sprintf("the disk: %.1f ms of fsync", median(each(costs, func(c cost) float64 {
		return float64(c.sync) / float64(time.Millisecond)
	})))

	conditions := conditions("ext4, default worker document of Gardener " + shoot.Versions()[0] +
		" on a node without a configuration, from its text to the end of the apply, " +
		"fsync included; unit starts take no time, files of images are small")

	return r.add(result("gardener/default-worker/first", "ms", 150, limit, conditions,
		each(costs, total)...))
}

// worker returns the text of the document.
func worker(ctx context.Context) ([]byte, error) {
	documents, err := shoot.Rendered(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	for _, d := range documents {
		if d.Kind == shoot.Reconcile && d.Name == defaultWorker {
			return d.OSC, nil
		}
	}
	return nil, fmt.Errorf("no document %s", defaultWorker)
}

// firstWorker applies the document on a new node.
func firstWorker(ctx context.Context, text []byte) (cost, error) {
	b, err := newRig("worker")
	if err != nil {
		return cost{}, err
	}
	defer b.close()

	image := b.roots[2]
	err = furnish(image)
	if err != nil {
		return cost{}, err
	}

	decoder := decode.Decoder{
		Hostname: "node-1",
		Image:    image,
		Contents: small{},
	}

	return b.meter.do(func() error {
		desired, err := decoder.Decode(ctx, source.Document{
			Name:        defaultWorker,
			Text:        text,
			FromCluster: true,
		})
		if err != nil {
			return err
		}
		_, err = b.Apply(ctx, apply.Request{Desired: desired, Source: "bench"})
		return err
	})
}

// furnish writes what the document needs of an image.
func furnish(image *os.Root) error {
	files := map[string]string{"etc/containerd/config.toml": "version = 2\n"}
	for _, name := range imageUnits {
		files["usr/lib/systemd/system/"+name] = "[Service]\nExecStart=/bin/true\n"
	}

	for _, dir := range []string{"etc/containerd", "usr/lib/systemd/system"} {
		err := image.MkdirAll(dir, 0o755)
		if err != nil {
			return err
		}
	}

	for name, text := range files {
		err := image.WriteFile(name, []byte(text), 0o644)
		if err != nil {
			return err
		}
	}

	return nil
}

// small is a content.Provider with a small file for everything.
type small struct{}

// Secret implements content.Provider.
func (small) Secret(context.Context, string, string) (config.Content, error) {
	return config.Content{}, io.ErrUnexpectedEOF // The document refers to none.
}

// Image implements content.Provider.
func (small) Image(context.Context, string, string) (config.Content, error) {
	return config.Text("program"), nil
}
