package agent

import (
	"context"
	"errors"
	"sync"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/turns"
)

// Classify returns what a configuration of the cluster would disturb, by the
// exact plan. A configuration with errors disturbs nothing: it is refused before
// anything is touched.
func Classify(
	ctx context.Context, d decode.Decoder, p apply.Planner, text []byte,
) (turns.Class, error) {
	doc := source.Document{Name: "pending configuration", Text: text, FromCluster: true}
	desired, err := d.Decode(ctx, doc)
	switch {
	case errors.As(err, new(document.Errors)):
		return turns.None, nil
	case err != nil:
		return turns.None, err
	}

	planned, err := p.Plan(ctx, desired, doc.Name)
	if err != nil {
		return turns.None, err
	}
	return turns.ClassOf(planned), nil
}

// errContainerdDown means that images cannot be read without changing the node.
var errContainerdDown = errors.New("containerd does not run")

// classifier returns [Classify] for this node. It pulls the images of the
// configuration, which the node needs next, and starts nothing.
func (n *node) classifier() func(ctx context.Context, text []byte) (turns.Class, error) {
	pulled := decode.NewImages(durable.New(n.root, nil), decode.PendingHosts, n.imagePolicy(),
		func(context.Context, string) error { return errContainerdDown })
	d := decode.Decoder{
		Hostname: n.status.Hostname,
		Image:    n.image,
		Node:     n.root,
		Contents: decode.Fallback{First: n.cluster, Second: pulled},
		Follow:   pulled.Follow,
		Prepare:  pulled.Prepare,
		Cache:    &decode.Cache{},
	}
	if dir := (content.Directory{Path: n.status.Contents}); dir.Path != "" {
		d.Contents = decode.Fallback{First: dir, Second: d.Contents}
	}

	p := apply.Planner{
		State:     generation.Read(n.engine.Config().State.Root().FS()),
		Node:      n.root.FS(),
		Image:     n.image.FS(),
		Catalog:   generation.NewCatalog(n.image.FS()),
		Units:     n.systemd,
		OSVersion: n.status.ImageVersion,
	}
	d.Tokens = n.tokens

	// A configuration can replace another one that is still looked at.
	var one sync.Mutex
	return func(ctx context.Context, text []byte) (turns.Class, error) {
		one.Lock()
		defer one.Unlock()
		return Classify(ctx, d, p, text)
	}
}
