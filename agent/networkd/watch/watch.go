// Package watch has networkd have the network of machine.yaml, and watches how the
// node is reached.
package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/network"
	"github.com/loam-os/loam/agent/networkd"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
)

// Units is what the network needs of systemd.
type Units interface {
	Show(ctx context.Context, names []string) ([]unit.State, error)
	Restart(ctx context.Context, name string) error
}

// Network says how the node is reached.
type Network struct {
	root  *os.Root
	units Units
	// files are those in force.
	files network.Files
	// fixed is what stays as it is of the state.
	fixed   status.Network
	state   atomic.Pointer[status.Network]
	changed chan struct{}
}

// New is the network of the node whose root directory is root.
func New(root *os.Root, units Units) *Network {
	return &Network{root: root, units: units, changed: make(chan struct{}, 1)}
}

func (n *Network) Settle(ctx context.Context, node *durable.Dir, want *network.Config, fresh bool) error {
	var err error
	if n.files, err = networkd.InForce(n.root); err != nil {
		return err
	}
	files, keepErr := n.wanted(node, want)
	if keepErr != nil && want == nil || maps.Equal(files, n.files) {
		return keepErr
	}
	states, err := n.units.Show(ctx, []string{networkd.Unit})
	if err != nil {
		return errors.Join(keepErr, fmt.Errorf("observe %s: %w", networkd.Unit, err))
	}
	running := len(states) == 1 && states[0].Active != "inactive" && states[0].Active != "failed"
	if running && (len(n.files) > 0 || !fresh) {
		n.fixed.Next, n.fixed.From = true, sourceOf(n.files, status.NetworkKept)
		return keepErr
	}
	if running {
		if err := networkd.MarkUnread(node); err != nil {
			return errors.Join(keepErr, err)
		}
	}
	n.files = files // On a disk that is full, at least now.
	return errors.Join(keepErr, networkd.Put(node, files))
}

// sourceOf is where files come from: from, or from the image if there are none.
func sourceOf(files network.Files, from status.NetworkSource) status.NetworkSource {
	if len(files) == 0 {
		return status.NetworkOfImage
	}
	return from
}

// wanted is what networkd is to have, which is kept before it has it.
func (n *Network) wanted(node *durable.Dir, want *network.Config) (files network.Files, err error) {
	from := status.NetworkOfMachine
	if want != nil {
		files = network.Render(*want)
		err = networkd.Keep(node, files)
	} else {
		from = status.NetworkKept
		files, err = networkd.Kept(n.root)
	}
	n.fixed.From = sourceOf(files, from)
	return files, err
}

// Run looks again whenever networkd has news, until ctx ends.
func (n *Network) Run(ctx context.Context, path string, log *zap.Logger) {
	news, err := Changes(ctx, path)
	if err != nil {
		log.Error("watch the network", zap.Error(err))
		return
	}
	if networkd.Unread(n.root) { // The restart waits for the agent to be up.
		err := n.units.Restart(ctx, networkd.Unit)
		if err == nil {
			err = networkd.MarkRead(durable.New(n.root, nil))
		}
		if err != nil && ctx.Err() == nil {
			log.Error("network", zap.Error(err))
		}
	}
	for n.Look(); ; n.Look() {
		if _, ok := <-news; !ok {
			return
		}
	}
}

// Changes tells when networkd has written something about an interface.
func Changes(ctx context.Context, root string) (<-chan struct{}, error) {
	var dirs source.Directories
	for _, dir := range networkd.StateDirs {
		dirs = append(dirs, filepath.Join(root, dir))
	}
	return dirs.Watch(ctx)
}

// Look takes in how the network stands, and tells of it if that is another than before.
func (n *Network) Look() {
	s := networkd.Judge(n.files, networkd.Observe(n.root.FS(), networkd.Addressed))
	s.From, s.Next = n.fixed.From, n.fixed.Next
	n.state.Store(&s)
	select {
	case n.changed <- struct{}{}:
	default: // The loop is told already.
	}
}

// State is how the network stands.
func (n *Network) State() *status.Network { return n.state.Load() }

// Changed tells when that may be another.
func (n *Network) Changed() <-chan struct{} { return n.changed }
