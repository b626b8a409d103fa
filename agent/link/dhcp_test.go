package link

import (
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
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

func TestWhatIsTakenOfOffers(t *testing.T) {
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
	if got != "192.0.2.7/26" || n.Router.String() != "192.0.2.1" || len(n.DNS) != 1 ||
		n.URL != "http://x" {
		t.Errorf("%+v", n)
	}

	n, err = network("eth0", offer(t, "10.1.2.3"), "")
	if err != nil || n.Address.String() != "10.1.2.3/8" || n.Router != nil {
		t.Errorf("without a mask and a router: %+v, %v", n, err)
	}
}

// TestWhoAsks: servers tell a node of Loam by these.
func TestWhoAsks(t *testing.T) {
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

// TestWhatDoesNotLeadToTheServer: a management controller gives the machine an
// address, too, on a network of the two of them.
func TestWhatDoesNotLeadToTheServer(t *testing.T) {
	controller := Network{Address: net.IPNet{
		IP:   net.IPv4(169, 254, 1, 2),
		Mask: net.CIDRMask(24, 32),
	}}

	routed := controller
	named := controller
	routed.Router = net.IPv4(169, 254, 1, 1)
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
		); (err == nil) != (test.reason == "") || err != nil && err.Error() != test.reason {
			t.Errorf("%s: %v, want %q", test.name, err, test.reason)
		}
	}
}
