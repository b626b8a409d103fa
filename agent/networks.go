package agent

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
)

// Networks says how the node is reached.
type Networks struct {
	root  *os.Root
	units Units
	// files are those in force.
	files network.Files
	// fixed is what stays as it is of the state.
	fixed   status.Network
	state   atomic.Pointer[status.Network]
	changed chan struct{}
}

// settleNetwork sees to it that networkd, which waits for the agent at boot, has the
// network of machine.yaml, want, or else what was kept of the last one. A networkd that
// runs has made interfaces that it would not take away or change: another network
// is kept for the next boot, and the way by which the node is reached now stays as it is.
// But of a node that has had no document in this boot, and runs no generation that was
// made of an earlier one, nothing was made yet.
func (n *node) settleNetwork(ctx context.Context, want *network.Config) {
	n.network = &Networks{root: n.root, units: n.systemd, changed: make(chan struct{}, 1)}
	_, runs, err := n.engine.Current()
	fresh := err == nil && !runs && saidBefore(n.root).Machine == ""
	if err := n.network.settle(ctx, durable.New(n.root, nil), want, fresh); err != nil {
		n.Log.Error("network", zap.Error(err))
		n.warn(err)
	}
	n.network.look()
}

func (n *Networks) settle(ctx context.Context, node *durable.Dir, want *network.Config, fresh bool) error {
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
func (n *Networks) wanted(node *durable.Dir, want *network.Config) (files network.Files, err error) {
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

// run looks again whenever networkd has news, until ctx ends.
func (n *Networks) run(ctx context.Context, env Env) {
	news, err := watchNetworkd(ctx, env.Root)
	if err != nil {
		env.Log.Error("watch the network", zap.Error(err))
		return
	}
	if networkd.Unread(n.root) { // The restart waits for the agent to be up.
		err := n.units.Restart(ctx, networkd.Unit)
		if err == nil {
			err = networkd.MarkRead(durable.New(n.root, nil))
		}
		if err != nil && ctx.Err() == nil {
			env.Log.Error("network", zap.Error(err))
		}
	}
	for n.look(); ; n.look() {
		if _, ok := <-news; !ok {
			return
		}
	}
}

// watchNetworkd tells when networkd has written something about an interface.
func watchNetworkd(ctx context.Context, root string) (<-chan struct{}, error) {
	var dirs source.Directories
	for _, dir := range networkd.StateDirs {
		dirs = append(dirs, filepath.Join(root, dir))
	}
	return dirs.Watch(ctx)
}

// look takes in how the network stands, and tells of it if that is another than before.
func (n *Networks) look() {
	s := networkd.Judge(n.files, networkd.Observe(n.root.FS(), networkd.Addressed))
	s.From, s.Next = n.fixed.From, n.fixed.Next
	n.state.Store(&s)
	select {
	case n.changed <- struct{}{}:
	default: // The loop is told already.
	}
}

// State is how the network stands.
func (n *Networks) State() *status.Network { return n.state.Load() }

// Changed tells when that may be another.
func (n *Networks) Changed() <-chan struct{} { return n.changed }
