// Package nodename chooses the host name of the node ([Choose]), and notices
// when it changes ([AwaitChange]). Which texts are host names is in
// agent/hostname.
package nodename

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/hostname"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/network"
	"github.com/loam-os/loam/agent/networkd"
	"github.com/loam-os/loam/firmware/identity"
	"github.com/loam-os/loam/hint"
)

// Choose returns the host name that machine.yaml gives the node, directly or by
// hostnameFrom; empty as long as the source has no name. A name that was chosen
// by hostnameFrom before stays, whatever its source says now, because the name
// of a kubelet must not change.
func Choose(m machine.Machine, root *os.Root) (string, error) {
	if m.Hostname != "" || m.HostnameFrom == "" {
		return m.Hostname, nil
	}

	text, err := root.ReadFile(boot.HostnameFile)
	if recorded := strings.TrimSpace(string(text)); err == nil && hostname.Valid(recorded) {
		return recorded, nil
	}

	if m.HostnameFrom == machine.FromDHCP {
		name, err := fromDHCP(root.FS())
		if name == "" && err == nil && !asksDHCP(m) {
			err = errNoDHCP
		}
		return name, err
	}
	return fromMachine(root.FS()), nil
}

// errNoDHCP means that the name will not come, until machine.yaml is another.
var errNoDHCP = hint.With(
	errors.New("hostnameFrom: no interface of network asks a DHCP server, which has the name"),
	"write dhcp4: true, or a hostname",
)

// asksDHCP reports whether an interface asks a server that may have the name.
func asksDHCP(m machine.Machine) bool {
	asks := func(i network.Interface) bool { return i.DHCP4 }
	return len(m.Network.Interfaces) == 0 || slices.ContainsFunc(m.Network.Interfaces, asks)
}

// fromDHCP returns the first name of a DHCP server that is a host name.
func fromDHCP(root fs.FS) (string, error) {
	var errs []error
	for _, given := range networkd.Hostnames(root) {
		name, err := hostname.Parse(given)
		if err == nil {
			return name, nil
		}
		errs = append(errs, fmt.Errorf("host name %q of a DHCP server: %w", given, err))
	}
	return "", errors.Join(errs...)
}

// fromMachine returns the name for the serial number of the machine or, without
// one, for the least address of its network interfaces, once networkd knows
// them.
func fromMachine(root fs.FS) string {
	if name := hostname.OfSerial(identity.Serial(root)); name != "" {
		return name
	}

	if _, err := fs.Stat(root, strings.TrimPrefix(networkd.StateFile, "/")); err != nil {
		return ""
	}
	addresses := hardwareAddresses(root)
	if len(addresses) == 0 {
		return ""
	}
	return hostname.OfMAC(slices.MinFunc(addresses, func(a, b net.HardwareAddr) int {
		return bytes.Compare(a, b)
	}))
}

// hardwareAddresses returns the permanent addresses of the network interfaces
// that are devices.
func hardwareAddresses(root fs.FS) []net.HardwareAddr {
	const dir = "sys/class/net"
	entries, _ := fs.ReadDir(root, dir)

	var addresses []net.HardwareAddr
	for _, entry := range entries {
		if address, ok := hardwareAddress(root, path.Join(dir, entry.Name())); ok {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// hardwareAddress returns the permanent Ethernet address of the interface in
// dir; false if it has none.
func hardwareAddress(root fs.FS, dir string) (net.HardwareAddr, bool) {
	// permanent is NET_ADDR_PERM (Documentation/ABI/testing/sysfs-class-net,
	// addr_assign_type).
	const permanent = "0"
	read := func(name string) string {
		text, _ := fs.ReadFile(root, path.Join(dir, name))
		return strings.TrimSpace(string(text))
	}

	if _, err := fs.Stat(root, path.Join(dir, "device")); err != nil {
		return nil, false
	}
	address, err := net.ParseMAC(read("address"))
	if err != nil || len(address) != 6 || read("addr_assign_type") != permanent {
		return nil, false
	}
	return address, true
}
