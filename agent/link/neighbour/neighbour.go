// Package neighbour knows the machines on this machine's own links by their MAC,
// which the kernel learns from ARP and neighbour discovery. Unlike the address,
// it is not the machine's choice of the moment: one network device may have any
// number of addresses.
package neighbour

import (
	"net/netip"

	"github.com/vishvananda/netlink"
)

// MAC returns the MAC of the machine that has an address, "" if the address is on
// no link of this machine, or if its MAC is unknown.
func MAC(address netip.Addr) string {
	entries, err := netlink.NeighList(0, netlink.FAMILY_ALL)
	if err != nil && len(entries) == 0 {
		return ""
	}

	address = address.Unmap().WithZone("")
	for _, e := range entries {
		ip, ok := netip.AddrFromSlice(e.IP)
		if !ok || ip.Unmap() != address || !isKnown(e) {
			continue
		}
		return e.HardwareAddr.String()
	}
	return ""
}

// isKnown reports whether an entry has the MAC of a machine: one that is being
// asked for, or did not answer, has none, and the loopback device has zeros.
func isKnown(e netlink.Neigh) bool {
	if e.State&(netlink.NUD_INCOMPLETE|netlink.NUD_FAILED|netlink.NUD_NOARP) != 0 {
		return false
	}
	for _, b := range e.HardwareAddr {
		if b != 0 {
			return true
		}
	}
	return false
}

// Of returns the name that connections from an address are counted by: the MAC on
// an own link, else the address, for IPv6 its /64. A machine chooses freely among
// the addresses of a /64.
func Of(address netip.Addr) string { return of(address, MAC) }

func of(address netip.Addr, mac func(netip.Addr) string) string {
	if known := mac(address); known != "" {
		return known
	}
	return Network(address)
}

// Network is [Of] where MACs prove nothing, as relays answer for machines.
func Network(address netip.Addr) string {
	address = address.Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	network, err := address.Prefix(64)
	if err != nil {
		return "" // not an address
	}
	return network.String()
}
