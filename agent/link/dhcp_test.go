package link

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
	"github.com/vishvananda/netlink"

	"github.com/loam-os/loam/test/ethernet"
)

// offer is an answer of a DHCP server; an empty address is ProxyDHCP's.
func offer(t *testing.T, address string, options ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	p, err := dhcpv4.New(append(options, dhcpv4.WithMessageType(dhcpv4.MessageTypeOffer))...)
	if err != nil {
		t.Fatal(err)
	}

	p.YourIPAddr = net.IPv4zero
	if address != "" {
		p.YourIPAddr = net.ParseIP(address)
	}

	return p
}

func TestOffersGiveAnAddressAndAURL(t *testing.T) {
	option := func(name string) dhcpv4.Modifier {
		return dhcpv4.WithOption(dhcpv4.OptBootFileName(name))
	}

	field := func(name string) dhcpv4.Modifier {
		return func(p *dhcpv4.DHCPv4) { p.BootFileName = name }
	}

	for _, test := range []struct {
		name                     string
		offers                   []*dhcpv4.DHCPv4
		known                    string
		wantAddress, url, reason string
	}{
		{
			name:        "one server gives both",
			offers:      []*dhcpv4.DHCPv4{offer(t, "192.0.2.7", option("http://192.0.2.1:80"))},
			wantAddress: "192.0.2.7",
			url:         "http://192.0.2.1:80",
		},
		{
			name:        "in the field of BOOTP",
			offers:      []*dhcpv4.DHCPv4{offer(t, "192.0.2.7", field("http://192.0.2.1/"))},
			wantAddress: "192.0.2.7",
			url:         "http://192.0.2.1",
		},
		{
			name: "ProxyDHCP answers first",
			offers: []*dhcpv4.DHCPv4{
				offer(t, "", option("http://192.0.2.1")), offer(t, "192.0.2.7"),
			},
			wantAddress: "192.0.2.7",
			url:         "http://192.0.2.1",
		},
		{
			name: "ProxyDHCP answers last",
			offers: []*dhcpv4.DHCPv4{
				offer(t, "192.0.2.7"), offer(t, "192.0.2.8"),
				offer(t, "", option("http://192.0.2.1")),
			},
			wantAddress: "192.0.2.7",
			url:         "http://192.0.2.1",
		},
		{
			name:   "a boot file for firmware is no server",
			offers: []*dhcpv4.DHCPv4{offer(t, "192.0.2.7", option("pxelinux.0"))},
			reason: "no server for the system",
		},
		{
			name:   "a server by https is none",
			offers: []*dhcpv4.DHCPv4{offer(t, "192.0.2.7", option("https://192.0.2.1"))},
			reason: "no server for the system",
		},
		{
			name:        "the kernel has said where the system is",
			offers:      []*dhcpv4.DHCPv4{offer(t, "192.0.2.7")},
			known:       "http://192.0.2.1",
			wantAddress: "192.0.2.7",
		},
		{
			name:   "no address",
			offers: []*dhcpv4.DHCPv4{offer(t, "", option("http://192.0.2.1"))},
			reason: "no server offers an address",
		},
		{name: "no answer", reason: "no answer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, url, err := Client{URL: test.known}.choose(test.offers)
			if test.reason != "" {
				if err == nil || !strings.Contains(err.Error(), test.reason) {
					t.Errorf("error %v, want %q", err, test.reason)
				}
				return
			}
			if err != nil || got.YourIPAddr.String() != test.wantAddress || url != test.url {
				t.Errorf("%v, %q, %v; want %s, %q",
					got.YourIPAddr, url, err, test.wantAddress, test.url)
			}
		})
	}
}

func TestTheNetworkOfAnAcknowledgement(t *testing.T) {
	ack := offer(t, "192.0.2.7", dhcpv4.WithNetmask(net.CIDRMask(26, 32)),
		dhcpv4.WithRouter(net.IPv4(192, 0, 2, 1)), dhcpv4.WithDNS(net.IPv4(192, 0, 2, 2)))
	n, err := network("eth0", ack, "http://x")
	if err != nil {
		t.Fatal(err)
	}

	got := n.Address.String()
	if got != "192.0.2.7/26" || len(n.DNS) != 1 || n.URL != "http://x" || n.MTU != 0 {
		t.Errorf("%+v", n)
	}

	n, err = network("eth0", offer(t, "10.1.2.3"), "")
	if err != nil || n.Address.String() != "10.1.2.3/8" || n.Routes != nil {
		t.Errorf("without a mask and a router: %+v, %v", n, err)
	}
}

func TestRoutesOfAnAcknowledgement(t *testing.T) {
	router := dhcpv4.WithRouter(net.IPv4(192, 0, 2, 1))
	static := func(list ...string) dhcpv4.Modifier {
		var routes []*dhcpv4.Route
		for _, text := range list {
			to, via, _ := strings.Cut(text, " ")
			_, network, err := net.ParseCIDR(to)
			if err != nil {
				t.Fatal(err)
			}
			routes = append(routes, &dhcpv4.Route{Dest: network, Router: net.ParseIP(via)})
		}
		return dhcpv4.WithOption(dhcpv4.OptClasslessStaticRoute(routes...))
	}

	for _, test := range []struct {
		name    string
		options []dhcpv4.Modifier
		want    string
	}{
		{"a router", []dhcpv4.Modifier{router}, "0.0.0.0/0 via 192.0.2.1"},
		{
			"static routes alone",
			[]dhcpv4.Modifier{static("0.0.0.0/0 192.0.2.9", "10.0.0.0/8 192.0.2.8")},
			"0.0.0.0/0 via 192.0.2.9, 10.0.0.0/8 via 192.0.2.8",
		},
		{
			"with static routes the router does not count",
			[]dhcpv4.Modifier{router, static("10.0.0.0/8 192.0.2.8")},
			"10.0.0.0/8 via 192.0.2.8",
		},
		{
			"what is on the link comes first",
			[]dhcpv4.Modifier{static("0.0.0.0/0 192.0.2.1", "192.0.2.1/32 0.0.0.0")},
			"192.0.2.1/32 via <nil>, 0.0.0.0/0 via 192.0.2.1",
		},
		{
			"half a route is none",
			[]dhcpv4.Modifier{
				router, dhcpv4.WithGeneric(dhcpv4.OptionClasslessStaticRoute, []byte{8, 10, 192}),
			},
			"0.0.0.0/0 via 192.0.2.1",
		},
		{"none", nil, ""},
	} {
		var all []string
		for _, r := range routes(offer(t, "192.0.2.7", test.options...)) {
			all = append(all, fmt.Sprintf("%s via %s", &r.To, r.Via))
		}
		if got := strings.Join(all, ", "); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestMTUOfAnAcknowledgement(t *testing.T) {
	for _, test := range []struct {
		value []byte
		want  int
	}{
		{[]byte{0x05, 0x78}, 1400},
		{[]byte{0x05, 0x00}, 1280},
		{[]byte{0x04, 0xff}, 1280},
		{[]byte{0, 67}, 1280},
		{[]byte{5}, 0},
	} {
		ack := offer(t, "192.0.2.7", dhcpv4.WithGeneric(dhcpv4.OptionInterfaceMTU, test.value))
		if got := mtu(ack); got != test.want {
			t.Errorf("%v: %d, want %d", test.value, got, test.want)
		}
	}
}

// TestConnectByDHCP has a server that gives an address without a network around it,
// as clouds do, a way to the router, a way to all else by it, and an MTU.
func TestConnectByDHCP(t *testing.T) {
	if !ethernet.Own(t) {
		return
	}

	hub := ethernet.New(t, 0)
	hub.Device("node0")
	var server *server4.Server
	hub.Apart("plant0", netip.MustParsePrefix("192.0.2.1/24"), func() (err error) {
		server, err = server4.NewServer("plant0",
			&net.UDPAddr{IP: net.IPv4zero, Port: dhcpv4.ServerPort}, lease(t, router))
		return err
	})
	go server.Serve()
	t.Cleanup(func() { server.Close() })
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()

	n, err := Connect(ctx, Client{URL: "http://203.0.113.5"}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if got := addresses(t, "node0"); !slices.Contains(got, "192.0.2.7/32") {
		t.Errorf("addresses %v", got)
	}

	node, err := netlink.LinkByName("node0")
	if err != nil {
		t.Fatal(err)
	}
	if mtu := node.Attrs().MTU; mtu != 1400 {
		t.Errorf("MTU %d, want 1400", mtu)
	}
	found, err := netlink.RouteList(node, netlink.FAMILY_V4)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range found {
		got = append(got, fmt.Sprintf("%s via %s", r.Dst, r.Gw))
	}
	slices.Sort(got)
	want := []string{"0.0.0.0/0 via 192.0.2.1", "192.0.2.1/32 via <nil>"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}

	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	node, err = netlink.LinkByName("node0")
	if err != nil || node.Attrs().MTU != 1500 || node.Attrs().Flags&net.FlagUp != 0 {
		t.Errorf("after Close: %+v, %v", node.Attrs(), err)
	}
}

// router is the address of the router of a lease.
var router = net.IPv4(192, 0, 2, 1)

// A server that gives a route which the kernel refuses is asked again: an error of its
// administrator, or a stranger on the network, ends no start.
func TestARouteThatTheKernelRefusesEndsNoStart(t *testing.T) {
	if !ethernet.Own(t) {
		return
	}

	hub := ethernet.New(t, 0)
	hub.Device("node0")
	var server *server4.Server
	answers := 0
	hub.Apart("plant0", netip.MustParsePrefix("192.0.2.1/24"), func() (err error) {
		server, err = server4.NewServer("plant0",
			&net.UDPAddr{IP: net.IPv4zero, Port: dhcpv4.ServerPort},
			func(conn net.PacketConn, from net.Addr, in *dhcpv4.DHCPv4) {
				via := net.IPv4bcast
				if answers++; answers > 2 { // an offer and an acknowledgement
					via = router
				}
				lease(t, via)(conn, from, in)
			})
		return err
	})
	go server.Serve()
	t.Cleanup(func() { server.Close() })
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()

	var said []string
	n, err := Connect(ctx, Client{URL: "http://203.0.113.5"}, func(format string, args ...any) {
		said = append(said, fmt.Sprintf(format, args...))
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(n.Routes, func(r Route) bool { return r.Via.Equal(router) }) {
		t.Errorf("routes %v, want one by %s", n.Routes, router)
	}
	if len(said) != 1 || !strings.Contains(said[0], "route to 0.0.0.0/0") {
		t.Errorf("said %q, want why the first answer was refused", said)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

// lease gives each client the same address, and only the options that it asks for. All
// else is reached via an address.
func lease(t *testing.T, via net.IP) server4.Handler {
	kinds := map[dhcpv4.MessageType]dhcpv4.MessageType{
		dhcpv4.MessageTypeDiscover: dhcpv4.MessageTypeOffer,
		dhcpv4.MessageTypeRequest:  dhcpv4.MessageTypeAck,
	}
	_, everything, _ := net.ParseCIDR("0.0.0.0/0")
	_, toRouter, _ := net.ParseCIDR("192.0.2.1/32")
	return func(conn net.PacketConn, _ net.Addr, in *dhcpv4.DHCPv4) {
		answer, err := dhcpv4.NewReplyFromRequest(in,
			dhcpv4.WithMessageType(kinds[in.MessageType()]),
			dhcpv4.WithYourIP(net.IPv4(192, 0, 2, 7)),
			dhcpv4.WithServerIP(net.IPv4(192, 0, 2, 1)),
			dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(192, 0, 2, 1))),
			dhcpv4.WithNetmask(net.CIDRMask(32, 32)),
			dhcpv4.WithLeaseTime(3600),
		)
		if err != nil {
			t.Error(err)
			return
		}
		for _, option := range []dhcpv4.Option{
			dhcpv4.OptClasslessStaticRoute(
				&dhcpv4.Route{Dest: everything, Router: via},
				&dhcpv4.Route{Dest: toRouter, Router: net.IPv4zero}),
			dhcpv4.OptGeneric(dhcpv4.OptionInterfaceMTU, []byte{0x05, 0x78}),
		} {
			if in.IsOptionRequested(option.Code) {
				answer.UpdateOption(option)
			}
		}
		all := &net.UDPAddr{IP: net.IPv4bcast, Port: dhcpv4.ClientPort}
		if _, err := conn.WriteTo(answer.ToBytes(), all); err != nil {
			t.Log(err)
		}
	}
}

// TestDiscoveryIdentifiesTheNode: servers tell a node of Loam by these.
func TestDiscoveryIdentifiesTheNode(t *testing.T) {
	c := Client{Class: "LoamClient:Arch:00007", Arch: 7, UUID: []byte("0123456789abcdef")}
	p, err := dhcpv4.NewDiscovery(net.HardwareAddr{2, 0, 0, 0, 0, 1}, c.options()...)
	if err != nil {
		t.Fatal(err)
	}

	if p.ClassIdentifier() != c.Class || !p.IsBroadcast() || len(p.ClientArch()) != 1 ||
		p.ClientArch()[0] != 7 {
		t.Errorf("%s", p.Summary())
	}

	diff := cmp.Diff(append([]byte{0}, c.UUID...),
		p.Options.Get(dhcpv4.OptionClientMachineIdentifier))
	if diff != "" {
		t.Errorf("option 97 (-want +got):\n%s", diff)
	}
}

// TestNetworksWithoutARouteToTheServerAreRefused: a management controller gives the
// machine an address, too, on a network of the two of them.
func TestNetworksWithoutARouteToTheServerAreRefused(t *testing.T) {
	controller := Network{Address: net.IPNet{
		IP:   net.IPv4(169, 254, 1, 2),
		Mask: net.CIDRMask(24, 32),
	}}

	routed := controller
	named := controller
	routed.Routes = routes(offer(t, "169.254.1.2", dhcpv4.WithRouter(net.IPv4(169, 254, 1, 1))))
	named.DNS = []net.IP{net.IPv4(169, 254, 1, 1)}
	for _, test := range []struct {
		name, url string
		network   Network
		reason    string
	}{
		{
			"a server elsewhere",
			"http://192.0.2.1:8080",
			controller,
			"address 169.254.1.2/24, and no router to 192.0.2.1",
		},
		{"a server elsewhere, and a router", "http://192.0.2.1:8080", routed, ""},
		{"a server on the network", "http://169.254.1.1", controller, ""},
		{"a server that this network has told of", "", controller, ""},
		{
			"a server of IPv6, whose routers the kernel knows",
			"http://[2001:db8::1]",
			Network{Address: net.IPNet{
				IP:   net.ParseIP("2001:db8:1::2"),
				Mask: net.CIDRMask(128, 128),
			}},
			"",
		},
		{
			"a name, and no DNS server",
			"http://server",
			controller,
			"address 169.254.1.2/24, and no DNS server that knows server",
		},
		{"a name, and who knows it", "http://server", named, ""},
	} {
		if err := (Client{URL: test.url}).leads(
			test.network,
		); (err == nil) != (test.reason == "") || (err != nil && err.Error() != test.reason) {
			t.Errorf("%s: %v, want %q", test.name, err, test.reason)
		}
	}
}
