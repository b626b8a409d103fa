package liveness

import (
	"net/netip"
	"slices"
)

// Address is one of a Node's status.addresses.
type Address struct {
	// Type is InternalIP, ExternalIP, Hostname, InternalDNS or ExternalDNS.
	Type, Address string
}

const internalIP = "InternalIP"

// Restore decides what to write to a Node whose addresses were before and are
// now: nil for nothing. A kubelet that restarts while a cloud's API does not
// answer may take the InternalIP away, and with it the node out of the pods'
// network. Those that an interface still has, one of local, are put back first.
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
