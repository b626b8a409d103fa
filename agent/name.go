package agent

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/hostname"
	"github.com/loam-os/loam/agent/hostname/nodename"
	"github.com/loam-os/loam/agent/networkd/watch"
)

// name gives the node the host name of machine.yaml, and reports whether there
// is one. Without the name that hostnameFrom asks for, the node is not
// configured and joins no cluster.
func (n *node) name() bool {
	name, err := nodename.Choose(n.machine, n.root)
	if name != "" {
		n.status.Hostname = name
		err = n.setHostname(name)
	}
	if err != nil {
		n.warn(err)
	}

	n.nameless = name == "" && n.machine.HostnameFrom != ""
	if n.nameless {
		n.warn(fmt.Errorf(
			"the node has no name and waits for one: hostnameFrom of machine.yaml is %s",
			n.machine.HostnameFrom))
	}
	return !n.nameless
}

// setHostname names the node now, and at its next start before anything else.
func (n *node) setHostname(name string) error {
	if err := n.SetHostname(name); err != nil {
		return fmt.Errorf("set the host name to %s: %w", name, err)
	}
	_, err := n.records().WriteFile(boot.HostnameFile, []byte(name+"\n"), 0o644)
	if err != nil {
		return fmt.Errorf("keep the host name: %w", err)
	}
	return nil
}

// resolveName has the node find its own name. A /etc/hosts of a configuration is
// a link, and stays as it is.
func (n *node) resolveName() {
	info, err := n.root.Lstat(hostname.HostsFile)
	if err != nil || !info.Mode().IsRegular() {
		return
	}

	text, err := n.root.ReadFile(hostname.HostsFile)
	if err == nil {
		if named := hostname.Hosts(string(text), n.status.Hostname); named != string(text) {
			err = durable.New(n.root, nil).WriteVolatile(hostname.HostsFile, []byte(named), 0o644)
		}
	}
	if err != nil {
		n.Log.Warn("the node does not find its own name", zap.Error(err))
	}
}

// awaitName names the node as soon as hostnameFrom gives a name. That is a
// change of the host name, which ends the agent (watchHostname).
func (n *node) awaitName(ctx context.Context) {
	changes, err := watch.Changes(ctx, n.Root)
	if err != nil {
		n.Log.Error("wait for a host name", zap.Error(err))
		return
	}

	for {
		name, err := nodename.Choose(n.machine, n.root)
		if err == nil && name != "" {
			err = n.setHostname(name)
		}
		if err != nil {
			n.Log.Warn("host name", zap.Error(err))
		}
		if _, ok := <-changes; !ok {
			return
		}
	}
}

// watchHostname ends the agent when the host name changes: it starts again as
// that node.
func (env Env) watchHostname(ctx context.Context, end context.CancelCauseFunc) {
	name, err := os.Hostname()
	if err != nil {
		env.Log.Error("the host name is not watched", zap.Error(err))
		return
	}
	env.persist(ctx, "the host name is not watched", func() error {
		err := nodename.AwaitChange(ctx, name)
		if errors.Is(err, nodename.ErrChanged) {
			end(err)
			return nil
		}
		return err
	})
}
