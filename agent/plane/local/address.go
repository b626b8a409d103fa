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

// addresses are the addresses of a node, and the one that its cluster uses.
type addresses struct {
	store plane.Store

	// present and uptime are Addresses and Uptime of [Config].
	present func() ([]netip.Addr, error)
	uptime  func() time.Duration
}

// choose returns the address of the node that the cluster uses: the same as before as
// long as the node has it, and otherwise the best one that fits.
func (a addresses) choose(r plane.Record) (netip.Addr, error) {
	present, err := a.present()
	if err != nil {
		return netip.Addr{}, err
	}
	kept, err := a.store.Address()
	if err != nil {
		return netip.Addr{}, err
	}
	return chooseAddress(r, present, kept, a.uptime())
}

// record records the address that the cluster uses, if it is another one than before.
func (a addresses) record(r plane.Record) error {
	address, err := a.choose(r)
	if err != nil {
		return err
	}
	kept, err := a.store.Address()
	if err != nil || kept == address {
		return err
	}
	return a.store.WriteAddress(address)
}

// checkSite returns why no address of the node can be that of the cluster, unless one
// fits or may still come.
func (a addresses) checkSite(r plane.Record) error {
	present, err := a.present()
	if err != nil || slices.ContainsFunc(present, r.Fits) {
		return err
	}
	for _, address := range present {
		if err := r.CheckAddress(address); err != nil {
			return err
		}
	}
	return nil
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
