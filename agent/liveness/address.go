package liveness

import (
	"net/netip"
	"slices"
)

// Address is an entry of a Node's status.addresses.
type Address struct {
	// Type is InternalIP, ExternalIP, Hostname, InternalDNS or ExternalDNS.
	Type, Address string
}

const internalIP = "InternalIP"

// Restore decides which addresses to write to a Node that had the addresses
// before and now has now; nil if none. A kubelet that restarts while a cloud's
// API is down may remove the InternalIP, which takes the node out of the pods'
// network. Removed addresses that are still in local, those of the interfaces,
// are put back first.
func Restore(before, now []Address, local []netip.Addr) []Address {
	if slices.ContainsFunc(now, isInternal) {
		return nil
	}

	var lost []Address
	for _, a := range before {
		if isInternal(a) && isLocal(a, local) {
			lost = append(lost, a)
		}
	}

	if lost == nil {
		return nil
	}

	return slices.Concat(lost, now)
}

func isInternal(a Address) bool { return a.Type == internalIP }

func isLocal(a Address, local []netip.Addr) bool {
	ip, err := netip.ParseAddr(a.Address)
	return err == nil && slices.ContainsFunc(local, func(l netip.Addr) bool {
		return l.Unmap().WithZone("") == ip.Unmap()
	})
}
