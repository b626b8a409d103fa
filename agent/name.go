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
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/networkd/watch"
)

// naming gives the node the host name of machine.yaml.
type naming struct {
	Env
	records *durable.Dir
	machine machine.Machine
}

// apply names the node, and returns the name. It is empty as long as hostnameFrom
// gives none, and if machine.yaml names no node.
func (h naming) apply() (string, error) {
	name, err := nodename.Choose(h.machine, h.records.Root())
	if name != "" {
		err = h.set(name)
	}
	return name, err
}

// set names the node now, and at its next start before anything else.
func (h naming) set(name string) error {
	if err := h.SetHostname(name); err != nil {
		return fmt.Errorf("set the host name to %s: %w", name, err)
	}
	_, err := h.records.WriteFile(boot.HostnameFile, []byte(name+"\n"), 0o644)
	if err != nil {
		return fmt.Errorf("keep the host name: %w", err)
	}
	return nil
}

// await names the node as soon as hostnameFrom gives a name. That is a change of
// the host name, which ends the agent (watchHostname).
func (h naming) await(ctx context.Context) {
	changes, err := watch.Changes(ctx, h.Root)
	if err != nil {
		h.Log.Error("wait for a host name", zap.Error(err))
		return
	}

	for {
		if _, err := h.apply(); err != nil {
			h.Log.Warn("host name", zap.Error(err))
		}
		if _, ok := <-changes; !ok {
			return
		}
	}
}

// resolveName has the node find its own name. A /etc/hosts of a configuration is
// a link, and stays as it is.
func resolveName(root *os.Root, name string) error {
	info, err := root.Lstat(hostname.HostsFile)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}

	text, err := root.ReadFile(hostname.HostsFile)
	if err != nil {
		return err
	}
	named := hostname.Hosts(string(text), name)
	if named == string(text) {
		return nil
	}
	return durable.New(root, nil).WriteVolatile(hostname.HostsFile, []byte(named), 0o644)
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
