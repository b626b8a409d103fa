package networkd_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// lease is what a DHCP server gives, or a router announces if announced is set.
type lease struct {
	name      string
	address   net.IP
	options   []dhcpv4.Option
	announced []byte
	// dhcp6 says that a DHCPv6 server has the address.
	dhcp6 bool
	// dns, ntp, domain and host are what the options say.
	dns, ntp     []string
	domain, host string
}

// server is the address of the servers. It is not in the networks of the leases.
var server = net.IPv4(198, 51, 100, 1)

// everywhere are the addresses whose routes are compared: the gateways, neighbours,
// name servers, and what the classless routes lead to.
var everywhere = []string{
	"10.20.0.1", "10.20.0.2", "10.20.0.77", "10.20.1.1", "10.20.200.9", "10.30.5.5", "10.30.200.5",
	"172.16.9.9", "192.0.2.53", "192.0.2.54", "203.0.113.9", "9.9.9.9", "198.51.100.1",
}

// generated returns n leases of a DHCP server, the same ones for each seed. What a
// client takes from the options is drawn for each of them.
func generated(seed uint64, n int) []lease {
	r := rand.New(rand.NewPCG(seed, 2131))
	chance := func(of int) bool { return r.IntN(of) == 0 }
	gateway := net.IPv4(10, 20, 0, 1)

	var all []lease
	for i := range n {
		l := lease{address: net.IPv4(10, 20, 0, byte(100+i))}
		var words []string
		add := func(word string, option dhcpv4.Option) {
			words = append(words, word)
			l.options = append(l.options, option)
		}

		bits := []int{24, 16, 25, 32}[r.IntN(4)]
		if chance(8) {
			words = append(words, "no mask")
		} else {
			add(fmt.Sprint("/", bits), dhcpv4.OptSubnetMask(net.CIDRMask(bits, 32)))
		}

		if !chance(4) {
			routers := []net.IP{gateway, net.IPv4(10, 20, 0, 2)}[:1+r.IntN(2)]
			add(fmt.Sprint("routers ", routers), dhcpv4.OptRouter(routers...))
		}
		if chance(2) {
			routes := classless(r, gateway)
			add(fmt.Sprint("routes ", routes), dhcpv4.OptClasslessStaticRoute(routes...))
		}
		if chance(2) {
			size := []uint16{1400, 1280, 1500, 9000, 576, 67}[r.IntN(6)]
			add(fmt.Sprint("MTU ", size), dhcpv4.OptGeneric(dhcpv4.OptionInterfaceMTU,
				binary.BigEndian.AppendUint16(nil, size)))
		}
		if servers := r.IntN(3); servers > 0 {
			l.dns = []string{"192.0.2.53", "192.0.2.54"}[:servers]
			add(fmt.Sprint("DNS ", l.dns), dhcpv4.OptDNS(addressesOf(l.dns)...))
		}
		if chance(2) {
			l.domain = "site.example"
			add("domain "+l.domain, dhcpv4.OptDomainName(l.domain))
		}
		if chance(2) {
			l.host = fmt.Sprintf("node-%d", i)
			add("host "+l.host, dhcpv4.OptHostName(l.host))
		}
		if chance(3) {
			l.ntp = []string{"192.0.2.123"}
			add("NTP", dhcpv4.OptNTPServers(addressesOf(l.ntp)...))
		}

		l.name = fmt.Sprintf("%d: %s", i, strings.Join(words, ", "))
		all = append(all, l)
	}
	return all
}

// classless returns routes of option 121, with or without one to everything, and with
// or without one to the gateway itself.
func classless(r *rand.Rand, gateway net.IP) []*dhcpv4.Route {
	route := func(to string, via net.IP) *dhcpv4.Route {
		_, network, err := net.ParseCIDR(to)
		if err != nil {
			panic(err)
		}
		return &dhcpv4.Route{Dest: network, Router: via}
	}

	pool := []*dhcpv4.Route{
		route("0.0.0.0/0", gateway),
		route("10.20.0.1/32", net.IPv4zero),
		route("10.30.0.0/16", gateway),
		route("10.30.200.0/24", net.IPv4(10, 20, 0, 2)),
		route("172.16.0.0/12", net.IPv4zero),
	}
	r.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
	return pool[:1+r.IntN(len(pool))]
}

func addressesOf(texts []string) []net.IP {
	var all []net.IP
	for _, text := range texts {
		all = append(all, net.ParseIP(text))
	}
	return all
}

// announcements are of routers on a network without a DHCP server (RFC 4861, section
// 4.2; RFC 8106).
func announcements() []lease {
	prefix := net.ParseIP("2001:db8:5::")
	hour := []byte{0, 0, 0x0e, 0x10}
	advertisement := func(lifetime byte, options ...[]byte) []byte {
		const kind = 134
		text := []byte{kind, 0, 0, 0, 64, 0, lifetime, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		for _, option := range options {
			text = append(text, option...)
		}
		return text
	}
	// Flags: on the link, and for addresses.
	withPrefix := func(flags byte) []byte {
		text := append([]byte{3, 4, 64, flags}, hour...)
		text = append(append(text, hour...), 0, 0, 0, 0)
		return append(text, prefix...)
	}
	mtu := []byte{5, 1, 0, 0, 0, 0, 0x05, 0x78}
	dns := append(append([]byte{25, 3, 0, 0}, hour...), net.ParseIP("2001:db8:5::53")...)

	return []lease{
		{name: "an address of a DHCPv6 server", announced: advertisement(7), dhcp6: true},
		{name: "a router and its network", announced: advertisement(7, withPrefix(0xc0))},
		{name: "a network without a router", announced: advertisement(0, withPrefix(0xc0))},
		{name: "addresses that are not on the link", announced: advertisement(7, withPrefix(0x40))},
		{name: "an MTU and a name server", announced: advertisement(7, withPrefix(0xc0), mtu, dns)},
	}
}
