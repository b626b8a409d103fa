// Package nodename chooses the host name of the node, and watches it.
package nodename

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/hostname"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/networkd"
	"github.com/loam-os/loam/firmware/identity"
)

// Choose is what machine.yaml calls the node, directly or by saying where its name
// comes from. A name that was taken from somewhere is kept, whatever is there later: a
// kubelet's does not change. It is "" as long as there is none.
func Choose(m machine.Machine, root *os.Root) (string, error) {
	if m.Hostname != "" || m.HostnameFrom == "" {
		return m.Hostname, nil
	}
	text, err := root.ReadFile(boot.HostnameFile)
	if kept := strings.TrimSpace(string(text)); err == nil && hostname.Valid(kept) {
		return kept, nil
	}
	if m.HostnameFrom == machine.FromDHCP {
		return fromDHCP(root.FS())
	}
	return fromMachine(root.FS()), nil
}

// fromDHCP is the first name that a server gives and that can be one.
func fromDHCP(root fs.FS) (string, error) {
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

// fromMachine is that of its serial number . A machine that
// has none is called by the least address of its NICs, once networkd knows them.
func fromMachine(root fs.FS) string {
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
