package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/hostname"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/networkd"
	"github.com/loam-os/loam/agent/networkd/watch"
	"github.com/loam-os/loam/firmware/identity"
)

// name gives the node the name that machine.yaml says, if it says any. It is false for one
// that is still to come: before, the node is not configured and joins no cluster.
func (n *node) name() bool {
	name, err := nameOf(n.machine, n.root)
	if name != "" {
		n.status.Hostname, err = name, n.setHostname(name)
	}
	if err != nil {
		n.warn(err)
	}
	if n.nameless = name == "" && n.machine.HostnameFrom != ""; n.nameless {
		n.warn(fmt.Errorf("the node has no name and waits for one: hostnameFrom of machine.yaml is %s", n.machine.HostnameFrom))
	}
	return !n.nameless
}

// setHostname names the node now, and at its next start before all else.
func (n *node) setHostname(name string) error {
	if err := n.SetHostname(name); err != nil {
		return fmt.Errorf("set the host name to %s: %w", name, err)
	}
	if _, err := durable.New(n.root, nil).WriteFile(boot.HostnameFile, []byte(name+"\n"), 0o644); err != nil {
		return fmt.Errorf("keep the host name: %w", err)
	}
	return nil
}

// nameOf is what machine.yaml calls the node, directly or by saying where its name
// comes from. A name that was taken from somewhere is kept, whatever is there later: a
// kubelet's does not change. It is "" as long as there is none.
func nameOf(m machine.Machine, root *os.Root) (string, error) {
	if m.Hostname != "" || m.HostnameFrom == "" {
		return m.Hostname, nil
	}
	text, err := root.ReadFile(boot.HostnameFile)
	if kept := strings.TrimSpace(string(text)); err == nil && hostname.Valid(kept) {
		return kept, nil
	}
	if m.HostnameFrom == machine.FromDHCP {
		return nameOfDHCP(root.FS())
	}
	return nameOfMachine(root.FS()), nil
}

// nameOfDHCP is the first name that a server gives and that can be one.
func nameOfDHCP(root fs.FS) (string, error) {
	var wrong []error
	for _, given := range networkd.Hostnames(root) {
		name, err := hostname.OfDHCP(given)
		if err == nil {
			return name, nil
		}
		wrong = append(wrong, err)
	}
	return "", errors.Join(wrong...)
}

// nameOfMachine is that of its serial number . A machine that
// has none is called by the least address of its NICs, once networkd knows them.
func nameOfMachine(root fs.FS) string {
	if name := hostname.OfSerial(identity.Serial(root)); name != "" {
		return name
	}
	if _, err := fs.Stat(root, strings.TrimPrefix(networkd.StateFile, "/")); err != nil {
		return ""
	}
	macs := permanent(root)
	if len(macs) == 0 {
		return ""
	}
	return hostname.OfMAC(slices.MinFunc(macs, func(a, b net.HardwareAddr) int { return bytes.Compare(a, b) }))
}

// permanent are the addresses that hardware has of itself: addr_assign_type is 0
// (Documentation/ABI/testing/sysfs-class-net).
func permanent(root fs.FS) []net.HardwareAddr {
	const dir = "sys/class/net"
	entries, _ := fs.ReadDir(root, dir)
	var macs []net.HardwareAddr
	for _, e := range entries {
		read := func(name string) string {
			text, _ := fs.ReadFile(root, path.Join(dir, e.Name(), name))
			return strings.TrimSpace(string(text))
		}
		_, err := fs.Stat(root, path.Join(dir, e.Name(), "device"))
		if mac, macErr := net.ParseMAC(read("address")); err == nil && macErr == nil && len(mac) == 6 && read("addr_assign_type") == "0" {
			macs = append(macs, mac)
		}
	}
	return macs
}

// awaitName gives the node the name that machine.yaml has it take, as soon as there is one. That
// ends the agent, to be started again as that node.
func (n *node) awaitName(ctx context.Context) {
	news, err := watch.Changes(ctx, n.Root)
	if err != nil {
		n.Log.Error("wait for a host name", zap.Error(err))
		return
	}
	for {
		name, err := nameOf(n.machine, n.root)
		if err == nil && name != "" {
			err = n.setHostname(name)
		}
		if err != nil {
			n.Log.Warn("host name", zap.Error(err))
		}
		if _, ok := <-news; !ok {
			return
		}
	}
}
