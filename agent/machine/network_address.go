package machine

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/network"
)

// addresses checks the addresses, routes and servers of an interface.
func (c *networkCheck) addresses(i int, one network.Interface) {
	switch clients := []string{"", network.ClientMachine, network.ClientMAC}; {
	case !slices.Contains(clients, one.ClientID):
		c.Add(at(i, ".clientID"), document.Quote(one.ClientID)+" is not a client ID",
			"write one of "+strings.Join(clients[1:], ", "))
	case one.ClientID != "" && !one.DHCP4:
		c.Add(at(i, ".clientID"), "has no effect without dhcp4",
			"leave it out, or write dhcp4: true")
	}

	if use := c.uses[one.Name]; use != "" && (one.HasAddresses() || len(one.Routes) > 0) {
		c.Add(at(i, ""), "has addresses or routes, and is in "+use, "write them there")
		return
	}

	if !one.HasAddresses() &&
		(len(one.Routes) > 0 || len(one.DNS.Servers) > 0 || len(one.DNS.Search) > 0 ||
			len(one.NTP) > 0) {
		c.Add(at(i, ""), "has routes, dns or ntp, and no address",
			"write dhcp4, dhcp6 or slaac: true, or addresses")
		return
	}

	var own []netip.Prefix
	for n, text := range one.Addresses {
		own = append(own, c.address(at(i, fmt.Sprintf(".addresses[%d]", n)), text))
	}
	if len(own) > 0 && c.isDriver(one.Name) {
		c.Add(at(i, ".addresses"), "belong to a single NIC, and this may match several",
			"choose the NIC by mac, path or name")
	}

	for n, r := range one.Routes {
		c.route(at(i, fmt.Sprintf(".routes[%d]", n)), r, one, own)
	}

	c.servers(i, one)
}

// servers checks the DNS and time servers of an interface.
func (c *networkCheck) servers(i int, one network.Interface) {
	for n, text := range one.DNS.Servers {
		path := at(i, fmt.Sprintf(".dns.servers[%d]", n))
		if a, err := netip.ParseAddr(text); err != nil || !isHost(a) || a.Zone() != "" {
			c.Add(path, document.Quote(text)+" is not the address of a server",
				"write one such as 192.0.2.53 or 2001:db8::53")
		}
		c.once(path, "dns "+at(i, text), "given twice", "keep one of them")
	}

	for n, text := range one.DNS.Search {
		path := at(i, fmt.Sprintf(".dns.search[%d]", n))
		if !isName(text) {
			c.Add(path, document.Quote(text)+" is not a domain", "write one such as site.example")
		}
		c.once(path, "search "+at(i, text), "given twice", "keep one of them")
	}

	for n, text := range one.NTP {
		path := at(i, fmt.Sprintf(".ntp[%d]", n))
		a, err := netip.ParseAddr(text)
		if (err != nil || !isHost(a) || a.Zone() != "") &&
			(!isName(text) || looksLikeAddress(text)) {
			c.Add(path, document.Quote(text)+" is not a time server", "write its name or address")
		}
		c.once(path, "ntp "+at(i, text), "given twice", "keep one of them")
	}
}

// looksLikeAddress reports whether a name is a mistyped IPv4 address.
func looksLikeAddress(text string) bool { return strings.Trim(text, "0123456789.") == "" }

// isHost reports whether the address can belong to one machine.
func isHost(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback() &&
		!a.Is4In6() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// address parses an address with the length of its prefix. It reports an
// invalid one and returns the zero Prefix.
func (c *networkCheck) address(path, text string) netip.Prefix {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil || !isHost(p.Addr()) || p.Bits() == 0:
		c.Add(path, document.Quote(text)+" is not the address of an interface",
			"write one with the length of its prefix, such as 192.0.2.10/24 or 2001:db8::10/64")
		return netip.Prefix{}
	case p.Addr().BitLen()-p.Bits() > 1 && p.Masked().Addr() == p.Addr():
		c.Add(path, document.Quote(text)+" is the address of a network, not of a machine",
			"write the address of this node, such as "+p.Addr().Next().String()+
				text[strings.Index(text, "/"):])
	case p.Addr().Is4() && 32-p.Bits() > 1 && last(p) == p.Addr():
		c.Add(path, document.Quote(text)+" is the broadcast address of the network",
			"write the address of this node")
	}

	c.once(path, "address "+p.Addr().String(), "given twice", "give it to one interface, once")
	return p
}

// last returns the last address of an IPv4 network.
func last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(b)
}

func (c *networkCheck) route(
	path string, r network.Route, one network.Interface, own []netip.Prefix,
) {
	var via netip.Addr
	if r.Via != "" {
		var err error
		via, err = netip.ParseAddr(r.Via)
		if err != nil || !isHost(via) || via.Zone() != "" {
			c.Add(path+".via", document.Quote(r.Via)+" is not the address of a gateway",
				"write one such as 192.0.2.1")
			return
		}
	}

	to, ok := c.destination(path+".to", r, via)
	if !ok {
		return
	}

	if r.Metric < 0 || r.Metric > math.MaxUint32 {
		c.Addf(path+".metric", "write one of 1 to 4294967295: less goes first",
			"%d is not a metric", r.Metric)
	}

	if r.OnLink && r.Via == "" { // The kernel refuses the route, and networkd then the interface.
		c.Add(path+".onLink", "is set without via",
			"leave it out, or write via")
	}

	if !c.once(path, fmt.Sprintf("route %s %d", to, r.Metric),
		"has the destination and the metric of another route",
		"give each a metric: less goes first") || !via.IsValid() {
		return
	}

	c.gateway(path+".via", via, r.OnLink, one, own)
}

// destination parses the destination of a route, in the family of via, if there
// is one.
func (c *networkCheck) destination(
	path string, r network.Route, via netip.Addr,
) (netip.Prefix, bool) {
	if r.To == "" || r.To == "default" {
		if !via.IsValid() {
			c.Add(strings.TrimSuffix(path, ".to")+".via", "is empty",
				"write the gateway of the default route")
			return netip.Prefix{}, false
		}
		return netip.PrefixFrom(via, 0).Masked(), true
	}

	to, err := netip.ParsePrefix(r.To)
	switch {
	case err != nil || to.Addr().Is4In6():
		c.Add(path, document.Quote(r.To)+" is not a network",
			`write one such as 198.51.100.0/24, or "default"`)
	case to.Masked() != to:
		c.Add(path, document.Quote(r.To)+" is an address in a network",
			"write the network: "+to.Masked().String())
	case via.IsValid() && via.Is4() != to.Addr().Is4():
		c.Add(
			path,
			document.Quote(r.To)+" and the gateway "+via.String()+" are of different families",
			"write both as IPv4 or both as IPv6",
		)
	case to.Bits() == 0 && !via.IsValid():
		c.Add(strings.TrimSuffix(path, ".to")+".via", "is empty",
			"write the gateway of the default route")
	default:
		return to, true
	}

	return netip.Prefix{}, false
}

// gateway reports a via that the interface cannot reach itself. It does not
// know the addresses that a server or a router will give.
func (c *networkCheck) gateway(
	path string, via netip.Addr, onLink bool, one network.Interface, own []netip.Prefix,
) {
	dynamic := (via.Is4() && one.DHCP4) ||
		(via.Is6() && (one.DHCP6 || one.SLAAC || via.IsLinkLocalUnicast()))
	family := slices.ContainsFunc(own, func(p netip.Prefix) bool {
		return p.IsValid() && p.Addr().Is4() == via.Is4()
	})

	switch {
	case slices.ContainsFunc(own, func(p netip.Prefix) bool {
		return p.IsValid() && p.Addr() == via
	}):
		c.Add(path, via.String()+" is this node", "write the address of the gateway")
	case slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.IsValid() && broadcast(p) == via }):
		c.Add(path, via.String()+" is the broadcast address of a network",
			"write the address of the gateway")
	case !dynamic && !family:
		c.Add(path, "the interface has no address of the family of "+via.String(),
			"write one in addresses, dhcp4, dhcp6 or slaac")
	case !dynamic && !onLink && !slices.ContainsFunc(own, func(p netip.Prefix) bool {
		return p.IsValid() && p.Contains(via)
	}):
		c.Add(path, via.String()+" is in no network of the interface",
			"write onLink: true if it is on the link nevertheless")
	}
}

// broadcast returns the last address of a network of IPv4, to which the kernel sends
// no packet by way of a gateway; the zero address for a network without one.
func broadcast(p netip.Prefix) netip.Addr {
	if !p.Addr().Is4() || p.Bits() >= 31 {
		return netip.Addr{}
	}
	last := p.Masked().Addr().As4()
	binary.BigEndian.PutUint32(last[:], binary.BigEndian.Uint32(last[:])|uint32(1)<<(32-p.Bits())-1)
	return netip.AddrFrom4(last)
}
