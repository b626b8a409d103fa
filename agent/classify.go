package agent

import (
	"context"
	"errors"
	"sync"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/turns"
)

// Classify returns what a configuration of the cluster would disturb with the
// values of these Secrets, by the exact plan. A configuration with errors disturbs nothing: it is refused before
// anything is touched.
func Classify(
	ctx context.Context, d decode.Decoder, p apply.Planner, text []byte, secrets content.Provider,
) (turns.Class, error) {
	d.Contents = decode.Fallback{First: secrets, Second: d.Contents}
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

// classifier returns [Classify] for a node, one configuration at a time: one can
// replace another that is still looked at.
func classifier(
	d decode.Decoder, p apply.Planner,
) func(ctx context.Context, text []byte, secrets content.Provider) (turns.Class, error) {
	var one sync.Mutex
	return func(ctx context.Context, text []byte, secrets content.Provider) (turns.Class, error) {
		one.Lock()
		defer one.Unlock()
		return Classify(ctx, d, p, text, secrets)
	}
}

// planner returns what plans a change of the node.
func (n *node) planner() apply.Planner {
	return apply.Planner{
		State:     generation.Read(n.engine.Config().State.Root().FS()),
		Node:      n.root.FS(),
		Image:     n.image.FS(),
		Catalog:   generation.NewCatalog(n.image.FS()),
		Units:     n.systemd,
		OSVersion: n.status.ImageVersion,
	}
}
