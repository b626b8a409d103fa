// Package watch brings the network of machine.yaml to systemd-networkd, and
// observes how the node is reached.
//
// [Network.Apply] runs once, before the loop, and [Network.Run] beside it. The
// package stands apart from agent/networkd, which PID 1 imports.
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

// Units is systemd; see unit.Systemd.
type Units interface {
	Show(ctx context.Context, names []string) ([]unit.State, error)
	Restart(ctx context.Context, name string) error
}

// Network is the network of one node. All fields but state are set before Run.
type Network struct {
	root  *os.Root
	units Units
	// files are the files of networkd in force.
	files network.Files
	// from and next are what Apply has found out for the status.
	from status.NetworkSource
	next bool

	state   atomic.Pointer[status.Network]
	changed chan struct{}
}

// New returns the network of the node whose root directory is root.
func New(root *os.Root, units Units) *Network {
	return &Network{
		root:    root,
		units:   units,
		changed: make(chan struct{}, 1),
	}
}

// Apply gives networkd, which waits for the agent at boot, the network of
// machine.yaml, or the one recorded last if want is nil. An error leaves the
// network in force or, on a disk that is full, may have applied it without
// recording it.
//
// A running networkd has made interfaces that it would neither remove nor
// change. So a different network is only recorded, for the next boot, and the
// node stays reachable as it is. The exception is a fresh node: it runs no
// configuration, and none was given in this boot, so nothing was made yet.
func (n *Network) Apply(
	ctx context.Context,
	node *durable.Dir,
	want *network.Config,
	fresh bool,
) error {
	inForce, err := networkd.InForce(n.root)
	if err != nil {
		return err
	}
	n.files = inForce

	files, recordErr := n.desired(node, want)
	if (recordErr != nil && want == nil) || maps.Equal(files, inForce) {
		return recordErr
	}

	running, err := n.isRunning(ctx)
	if err != nil {
		return errors.Join(recordErr, err)
	}
	if running && (len(inForce) > 0 || !fresh) {
		n.next = true
		n.from = orImage(inForce, status.NetworkKept)
		return recordErr
	}

	// Run restarts a networkd that runs already.
	if running {
		if err := networkd.MarkUnread(node); err != nil {
			return errors.Join(recordErr, err)
		}
	}
	n.files = files
	return errors.Join(recordErr, networkd.Put(node, files))
}

// desired returns the files that networkd should have. It records the files of
// machine.yaml before networkd has them.
func (n *Network) desired(node *durable.Dir, want *network.Config) (network.Files, error) {
	if want == nil {
		files, err := networkd.Kept(n.root)
		n.from = orImage(files, status.NetworkKept)
		return files, err
	}

	files := network.Render(*want)
	n.from = orImage(files, status.NetworkOfMachine)
	return files, networkd.Keep(node, files)
}

// orImage returns from, or the image as the source if there are no files.
func orImage(files network.Files, from status.NetworkSource) status.NetworkSource {
	if len(files) == 0 {
		return status.NetworkOfImage
	}
	return from
}

func (n *Network) isRunning(ctx context.Context) (bool, error) {
	states, err := n.units.Show(ctx, []string{networkd.Unit})
	if err != nil {
		return false, fmt.Errorf("observe %s: %w", networkd.Unit, err)
	}
	if len(states) != 1 {
		return false, nil
	}
	return states[0].Active != "inactive" && states[0].Active != "failed", nil
}

// Run observes the network whenever networkd changes it, until ctx ends. path
// is the path of the root directory.
func (n *Network) Run(ctx context.Context, path string, log *zap.Logger) {
	changes, err := Changes(ctx, path)
	if err != nil {
		log.Error("watch the network", zap.Error(err))
		return
	}

	if err := n.restartUnread(ctx); err != nil && ctx.Err() == nil {
		log.Error("network", zap.Error(err))
	}

	for {
		n.Observe()
		if _, ok := <-changes; !ok {
			return
		}
	}
}

// restartUnread restarts a networkd that ran before Apply put its files. It
// must wait until the agent is up, which networkd is ordered after.
func (n *Network) restartUnread(ctx context.Context) error {
	if !networkd.Unread(n.root) {
		return nil
	}
	if err := n.units.Restart(ctx, networkd.Unit); err != nil {
		return err
	}
	return networkd.MarkRead(durable.New(n.root, nil))
}

// Changes receives a value when networkd has written something about an
// interface. root is the path of the root directory.
func Changes(ctx context.Context, root string) (<-chan struct{}, error) {
	var dirs source.Directories
	for _, dir := range networkd.StateDirs {
		dirs = append(dirs, filepath.Join(root, dir))
	}
	return dirs.Watch(ctx)
}

// Observe reads the state of the network, and notifies the receiver of Changed.
func (n *Network) Observe() {
	state := networkd.Judge(n.files, networkd.Observe(n.root.FS(), networkd.Addressed))
	state.From = n.from
	state.Next = n.next
	n.state.Store(&state)

	// A notification that nothing has received yet stands for this one, too.
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// State returns the state that was observed last; nil before the first.
func (n *Network) State() *status.Network { return n.state.Load() }

// Changed receives a value when State may return a different one.
func (n *Network) Changed() <-chan struct{} { return n.changed }
