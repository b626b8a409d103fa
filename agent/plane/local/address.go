package local

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/hint"
)

// addressDelay is how long after its start a node waits for the address that it
// had before. Interfaces come up in any order.
const addressDelay = time.Minute

// keepAddress records the address that the cluster uses, if it is another one than
// before.
func (n *Node) keepAddress(r plane.Record) error {
	address, err := n.address(r)
	if err != nil {
		return err
	}
	kept, err := n.Store.Address()
	if err != nil || kept == address {
		return err
	}
	return n.Store.WriteAddress(address)
}

// address returns the address of the node that the cluster uses: the same as
// before as long as the node has it, and otherwise the best one that fits.
func (n *Node) address(r plane.Record) (netip.Addr, error) {
	present, err := n.Addresses()
	if err != nil {
		return netip.Addr{}, err
	}
	kept, err := n.Store.Address()
	if err != nil {
		return netip.Addr{}, err
	}
	return chooseAddress(r, present, kept, n.Uptime())
}

// chooseAddress decides which of the addresses that are present the cluster uses. kept
// is the one before, the zero Addr if none, and uptime the time since kernel start.
func chooseAddress(
	r plane.Record, present []netip.Addr, kept netip.Addr, uptime time.Duration,
) (netip.Addr, error) {
	has := slices.Contains(present, kept) && r.Fits(kept)
	i := slices.IndexFunc(present, r.Fits)
	switch {
	case has:
		return kept, nil
	case kept.IsValid() && uptime < addressDelay:
		return netip.Addr{}, fmt.Errorf("cluster %s: this node waits for its address %s", r.Name, kept)
	case i < 0:
		return netip.Addr{}, hint.With(
			fmt.Errorf("cluster %s: this node has no address that fits its networks yet", r.Name),
			"connect its network, or give it an address of the family of %s outside of the "+
				"networks of the cluster", r.Services[0])
	}
	return present[i], nil
}

// documentation are addresses that no machine has (RFC 5737, RFC 3849).
var documentation = []string{"192.0.2.1:9", "[2001:db8::1]:9"}

// Addresses returns the addresses of this machine, beginning with those that its
// default routes use.
func Addresses() ([]netip.Addr, error) {
	var all []netip.Addr
	for _, target := range documentation {
		conn, err := net.Dial("udp", target) // It sends nothing.
		if err != nil {
			continue // There is no route.
		}
		address := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
		all = append(all, address.Unmap())
		_ = conn.Close()
	}

	list, err := net.InterfaceAddrs()
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			all = append(all, prefix.Addr())
		}
	}
	return all, err
}
