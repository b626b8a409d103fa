package agent

import (
	"context"
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
	root    *os.Root
	files   network.Files
	fixed   status.Network
	state   atomic.Pointer[status.Network]
	changed chan struct{}
}

// settleNetwork sees to it that networkd, which waits for the agent at boot, has the
// network of machine.yaml, want, or else what was kept of the last one. A networkd that
// runs has made interfaces that it would not take away or change: another network
// is kept for the next boot, and the way by which the node is reached now stays as it is.
func (env Env) settleNetwork(ctx context.Context, a *Agent, root *os.Root, want *network.Config) *Networks {
	n := &Networks{root: root, changed: make(chan struct{}, 1)}
	if err := n.settle(ctx, durable.New(root, nil), a.Units, want); err != nil {
		env.Log.Error("network", zap.Error(err))
		a.Status.Warnings = append(a.Status.Warnings, err.Error())
	}
	n.look()
	return n
}

func (n *Networks) settle(ctx context.Context, node *durable.Dir, units Units, want *network.Config) error {
	var err error
	if n.files, err = networkd.InForce(n.root); err != nil {
		return err
	}
	files, from := network.Files(nil), status.NetworkOfMachine
	if want != nil {
		files = network.Render(*want)
		err = networkd.Keep(node, files) // First: what networkd is given now, the next boot has too.
	} else {
		from = status.NetworkKept
		files, err = networkd.Kept(n.root)
	}
	if len(files) == 0 {
		from = status.NetworkOfImage
	}
	n.fixed.From = from
	if err != nil || maps.Equal(files, n.files) {
		return err
	}
	states, err := units.Show(ctx, []string{networkd.Unit})
	if err != nil {
		return fmt.Errorf("observe %s: %w", networkd.Unit, err)
	}
	if len(states) == 1 && !states[0].Stopped() && states[0].Active != "inactive" {
		n.fixed.Next = true
		return nil
	}
	n.files = files
	return networkd.Put(node, files)
}

// run looks again whenever networkd has news, until ctx ends.
func (n *Networks) run(ctx context.Context, env Env) {
	news, err := source.File{Path: filepath.Join(env.Root, networkd.StateFile)}.Watch(ctx)
	if err != nil {
		env.Log.Error("watch the network", zap.Error(err))
		return
	}
	for n.look(); ; n.look() {
		if _, ok := <-news; !ok {
			return
		}
	}
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
