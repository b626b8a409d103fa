// Package offline looks at a node without its agent.
package offline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/osimage"
	"github.com/loam-os/loam/agent/plan"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
)

// Env says which node is looked at without its agent.
type Env struct {
	// Root is the root directory, "/" for the running node.
	Root string
	// Hostname and Contents count instead of what the agent last said of the
	// node; "" leaves it to that.
	Hostname, Contents string
}

// Node is a node looked at without its agent, which may run or not. All it
// has are readers: nothing with which it could change the node.
type Node struct {
	// State is /var/lib/loam; empty on a node that has none yet.
	State fs.FS
	// Status is what the agent said last; without an agent, it is the image's
	// part alone.
	Status status.Status

	env  Env
	root *os.Root
}

// Open opens a node for looking at it. It writes nothing.
func Open(env Env) (*Node, error) {
	root, err := os.OpenRoot(env.Root)
	if err != nil {
		return nil, fmt.Errorf("open the root directory: %w", err)
	}
	o := &Node{env: env, root: root}
	if err := o.observe(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return o, nil
}

// Close ends looking.
func (o *Node) Close() error { return o.root.Close() }

func (o *Node) observe() error {
	facts, _, err := osimage.Observe(o.root)
	if err != nil {
		return fmt.Errorf("look at the node beneath %s: %w\nhint: --root names the root directory of a Loam node", o.env.Root, err)
	}
	o.Status = facts
	text, err := o.root.ReadFile(strings.TrimPrefix(status.Path, "/"))
	if err == nil {
		o.Status, err = status.Parse(text)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read what the agent says of the node: %w", err)
	}
	o.Status.ImageVersion = facts.ImageVersion
	if o.env.Hostname != "" {
		o.Status.Hostname = o.env.Hostname
	}
	if o.env.Contents != "" {
		o.Status.Contents = o.env.Contents
	}
	o.State, err = fs.Sub(o.root.FS(), strings.TrimPrefix(generation.Dir, "/"))
	return err
}

// Current is the generation that the running OS version uses; false if none.
func (o *Node) Current() (generation.Manifest, bool, error) {
	return generation.Read(o.State).Current(o.Status.ImageVersion)
}

// Plan decodes a document and says what the agent would do about it. Registries
// are not asked whether they answer.
func (o *Node) Plan(ctx context.Context, doc source.Document) (plan.Plan, config.Desired, error) {
	image, err := o.image()
	if err != nil {
		return plan.Plan{}, config.Desired{}, err
	}
	defer image.Close()
	units, disconnect, err := o.units(ctx)
	if err != nil {
		return plan.Plan{}, config.Desired{}, err
	}
	defer disconnect()
	decoder := decode.Decoder{Hostname: o.Status.Hostname, Image: image, Node: o.root}
	if o.Status.Contents != "" {
		decoder.Contents = content.Directory{Path: o.Status.Contents}
	}
	desired, err := decoder.Decode(ctx, doc)
	if err != nil {
		return plan.Plan{}, config.Desired{}, err
	}
	planner := apply.Planner{
		State:     generation.Read(o.State),
		Node:      o.root.FS(),
		Image:     image.FS(),
		Catalog:   generation.NewCatalog(image.FS()),
		Units:     units,
		OSVersion: o.Status.ImageVersion,
	}
	p, err := planner.Plan(ctx, desired, doc.Name)
	return p, desired, err
}

// image is the image's root directory: of the running node without what is
// mounted over it, of another tree the tree.
func (o *Node) image() (*os.Root, error) {
	if o.env.Root == "/" {
		return osimage.Open(o.env.Root)
	}
	return o.root.OpenRoot(".")
}

// units is the running node's systemd; of another tree's units nothing is known.
func (o *Node) units(ctx context.Context) (apply.Observer, func(), error) {
	if o.env.Root != "/" {
		return unobserved{}, func() {}, nil
	}
	systemd, err := unit.Connect(ctx, unit.PrivateSocket)
	if err != nil {
		return nil, nil, err
	}
	return systemd, systemd.Close, nil
}

// unobserved is a systemd that does not run: plan.Diff then takes units to be
// as the generation before wants them.
type unobserved struct{}

func (unobserved) Show(context.Context, []string) ([]unit.State, error) { return nil, nil }
