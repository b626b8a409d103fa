// Package offline reads a node without its agent, which may run or not. It has
// only readers: nothing here can change the node.
package offline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/osimage"
	"github.com/loam-os/loam/agent/plan"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/hint/fault"
)

// Env says which node to read.
type Env struct {
	// Root is the root directory, "/" for the running node.
	Root string
	// Hostname and Contents replace what the agent last published; empty to
	// keep it.
	Hostname, Contents string
}

// Node is a node that is read without its agent.
type Node struct {
	// State is /var/lib/loam; empty on a node that has none yet.
	State fs.FS
	// Status is what the agent published last, or the image's part alone if it
	// has not run.
	Status status.Status

	env  Env
	root *os.Root
}

// OpenRoot opens the root directory of a node. The caller closes it.
func OpenRoot(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.With(fmt.Errorf("open the root directory: %w", err), fault.NotANode)
	}
	return root, nil
}

// Open opens a node for reading. The caller closes it.
func Open(env Env) (*Node, error) {
	root, err := OpenRoot(env.Root)
	if err != nil {
		return nil, err
	}

	n := &Node{env: env, root: root}
	if err := n.observe(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return n, nil
}

// Close releases the root directory.
func (n *Node) Close() error { return n.root.Close() }

func (n *Node) observe() error {
	facts, _, err := osimage.Observe(n.root)
	if err != nil {
		return fmt.Errorf("look at the node beneath %s: %w", n.env.Root, err)
	}

	n.Status = facts
	text, err := n.root.ReadFile(strings.TrimPrefix(status.Path, "/"))
	if err == nil {
		n.Status, err = status.Parse(text)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read what the agent says of the node: %w", err)
	}

	n.Status.ImageVersion = facts.ImageVersion
	if n.env.Hostname != "" {
		n.Status.Hostname = n.env.Hostname
	}
	if n.env.Contents != "" {
		n.Status.Contents = n.env.Contents
	}

	n.State, err = fs.Sub(n.root.FS(), strings.TrimPrefix(generation.Dir, "/"))
	return err
}

// Current returns the generation that the running OS version uses; false if it
// has none.
func (n *Node) Current() (generation.Manifest, bool, error) {
	return generation.Read(n.State).Current(n.Status.ImageVersion)
}

// Plan decodes a document and returns what the agent would do about it. It does
// not probe registries, pull images or read the cluster: a note of the
// configuration says for which files that matters.
func (n *Node) Plan(ctx context.Context, doc source.Document) (plan.Plan, config.Desired, error) {
	image, err := n.image()
	if err != nil {
		return plan.Plan{}, config.Desired{}, err
	}
	defer image.Close()

	known := &contents{cluster: n.Status.Cluster != nil, digestsOnly: n.Status.DigestsOnly}
	if n.Status.Contents != "" {
		known.directory = content.Directory{Path: n.Status.Contents}
	}
	decoder := decode.Decoder{
		Hostname: n.Status.Hostname,
		Image:    image,
		Node:     n.root,
		Contents: known,
	}
	desired, err := decoder.Decode(ctx, doc)
	if err != nil {
		return plan.Plan{}, config.Desired{}, err
	}
	desired.Notes = append(desired.Notes, known.notes()...)

	p, err := n.plan(ctx, image, desired, doc.Name)
	return p, desired, err
}

// PlanRecord returns what the agent would do about a record that replaces the one
// of the node's own cluster, with the address that the cluster uses. It asks the
// repository how large a bundle is that the node does not have.
func (n *Node) PlanRecord(
	ctx context.Context, before, after plane.Record,
) (plan.Plan, config.Desired, error) {
	image, err := n.image()
	if err != nil {
		return plan.Plan{}, config.Desired{}, err
	}
	defer image.Close()

	store := plane.NewStore(durable.New(n.root, nil))
	before, err = store.Running(before)
	if err != nil {
		return plan.Plan{}, config.Desired{}, err
	}
	own := local.New(before, local.Config{
		Store: store,
		Root:  n.env.Root,
		Image: image,
		Name:  n.Status.Hostname,
		Addresses: func() ([]netip.Addr, error) {
			address, err := store.Address()
			return []netip.Addr{address}, err
		},
		Uptime: func() time.Duration { return math.MaxInt64 },
	})
	desired, err := own.Preview(after)
	if err != nil {
		return plan.Plan{}, config.Desired{}, err
	}
	first, err := local.EtcdFirst(ctx, store, n.env.Root, after)
	if err != nil {
		return plan.Plan{}, config.Desired{}, err
	}
	if first {
		desired.Notes = append(desired.Notes, etcdNote(after))
	}
	if !local.HasBundle(n.env.Root, after) {
		desired.Notes = append(desired.Notes, n.bundleNotes(ctx, before, after)...)
	}

	p, err := n.plan(ctx, image, desired, plane.RecordFile)
	return p, desired, err
}

// plan returns what the agent would do to get to desired, which source asks for.
func (n *Node) plan(
	ctx context.Context, image *os.Root, desired config.Desired, source string,
) (plan.Plan, error) {
	units, disconnect, err := n.units(ctx)
	if err != nil {
		return plan.Plan{}, err
	}
	defer disconnect()

	planner := apply.Planner{
		State:     generation.Read(n.State),
		Node:      n.root.FS(),
		Image:     image.FS(),
		Catalog:   generation.NewCatalog(image.FS()),
		Units:     units,
		OSVersion: n.Status.ImageVersion,
	}
	return planner.Plan(ctx, desired, source)
}

// image opens the image's root directory: of the running node without what is
// mounted over it, of another tree the tree itself.
func (n *Node) image() (*os.Root, error) {
	if n.env.Root == "/" {
		return osimage.Open(n.env.Root)
	}
	return n.root.OpenRoot(".")
}

// units returns the running node's systemd, and how to disconnect from it. The
// units of another tree cannot be observed.
func (n *Node) units(ctx context.Context) (apply.Observer, func(), error) {
	if n.env.Root != "/" {
		return unobserved{}, func() {}, nil
	}
	systemd, err := unit.Connect(ctx, unit.PrivateSocket)
	if err != nil {
		return nil, nil, err
	}
	return systemd, systemd.Close, nil
}

// unobserved is a systemd that does not run: plan.Diff then assumes that units
// are as the generation before wants them. It implements [apply.Observer].
type unobserved struct{}

// Show implements [apply.Observer].
func (unobserved) Show(context.Context, []string) ([]unit.State, error) { return nil, nil }
