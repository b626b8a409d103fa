package link

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/server6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/loam-os/loam/test/ethernet"
)

func TestProtocolsFollowFromTheURL(t *testing.T) {
	for url, want := range map[string]int{
		"http://192.0.2.1:8080":     1,
		"http://[2001:db8::1]":      1,
		"http://boot.plant.example": 2,
		"":                          2,
	} {
		if got := len(Client{URL: url}.protocols()); got != want {
			t.Errorf("%q: %d protocols, want %d", url, got, want)
		}
	}
}

func TestTheNetworkOfAReplyOfDHCPv6(t *testing.T) {
	own := net.IPNet{IP: net.ParseIP("2001:db8::a"), Mask: net.CIDRMask(64, 128)}
	given := dhcpv6.WithIANA(dhcpv6.OptIAAddress{
		IPv6Addr:      net.ParseIP("2001:db8::7"),
		ValidLifetime: time.Hour,
	})

	boot := func(url string) dhcpv6.Modifier {
		return dhcpv6.WithOption(dhcpv6.OptBootFileURL(url))
	}

	dns := dhcpv6.WithDNS(net.ParseIP("2001:db8::53"))
	for _, test := range []struct {
		name              string
		own               net.IPNet
		known             string
		reply             []dhcpv6.Modifier
		want, url, reason string
	}{
		{
			name:  "all by DHCPv6",
			reply: []dhcpv6.Modifier{given, boot("http://[2001:db8::1]/")},
			want:  "2001:db8::7/128",
			url:   "http://[2001:db8::1]",
		},
		{
			name:  "the address is the router's",
			own:   own,
			reply: []dhcpv6.Modifier{boot("http://[2001:db8::1]:80"), dns},
			want:  "2001:db8::a/64",
			url:   "http://[2001:db8::1]:80",
		},
		{
			name:  "the kernel has said where the system is",
			known: "http://[2001:db8::1]",
			reply: []dhcpv6.Modifier{given, boot("tftp://[2001:db8::1]/x.efi")},
			want:  "2001:db8::7/128",
		},
		{
			name:   "a boot file for firmware is no server",
			own:    own,
			reply:  []dhcpv6.Modifier{boot("tftp://[2001:db8::1]/x.efi")},
			reason: "no server for the system",
		},
		{name: "no address", known: "http://[2001:db8::1]", reason: "no server offers an address"},
	} {
		t.Run(test.name, func(t *testing.T) {
			reply, err := dhcpv6.NewMessage(test.reply...)
			if err != nil {
				t.Fatal(err)
			}

			n, err := Client{URL: test.known}.network6(Network{Address: test.own}, reply)
			if test.reason != "" {
				if err == nil || !strings.Contains(err.Error(), test.reason) {
					t.Errorf("%v, want %q", err, test.reason)
				}
				return
			}

			if err != nil || n.Address.String() != test.want || n.URL != test.url ||
				len(n.DNS) != len(reply.Options.DNS()) {
				t.Errorf("%+v, %v; want %s, %q", n, err, test.want, test.url)
			}
		})
	}
}

// TestConnectByDHCPv6 has two DHCPv6 servers on a network without a router and
// without IPv4. The server that answers first has no addresses.
func TestConnectByDHCPv6(t *testing.T) {
	if !ethernet.Own(t) {
		return
	}

	const class = "LoamClient:Arch:00007"
	hub := ethernet.New(t, 0)
	hub.Device("node0")
	var server *server6.Server
	hub.Apart("plant0", netip.MustParsePrefix("192.0.2.2/24"), func() (err error) {
		server, err = server6.NewServer("plant0", nil,
			func(conn net.PacketConn, peer net.Addr, in dhcpv6.DHCPv6) {
				give(t, class, conn, peer, in)
			})
		return err
	})

	go server.Serve()
	t.Cleanup(func() { server.Close() })
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()

	n, err := Connect(ctx, Client{Class: class, Arch: 7}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}

	if n.Interface != "node0" || n.Address.String() != "2001:db8::7/128" ||
		n.URL != "http://[2001:db8::1]:8080" || len(n.DNS) != 1 {
		t.Errorf("%+v", n)
	}

	if got := addresses(t, "node0"); !slices.Contains(got, "2001:db8::7/128") {
		t.Errorf("addresses %v", got)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if got := addresses(t, "node0"); len(got) > 0 {
		t.Errorf("after Close: addresses %v", got)
	}
}

func addresses(t *testing.T, name string) (all []string) {
	t.Helper()
	i, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}

	found, err := i.Addrs()
	if err != nil {
		t.Fatal(err)
	}

	for _, a := range found {
		all = append(all, a.String())
	}

	return all
}

// give gives an address to nodes of Loam.
func give(t *testing.T, class string, conn net.PacketConn, peer net.Addr, in dhcpv6.DHCPv6) {
	m, ok := in.(*dhcpv6.Message)
	if !ok || len(m.Options.UserClasses()) != 1 || string(m.Options.UserClasses()[0]) != class {
		return
	}

	options := []dhcpv6.Modifier{
		dhcpv6.WithServerID(&dhcpv6.DUIDLL{
			HWType:        1,
			LinkLayerAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1},
		}),
		dhcpv6.WithIAID(m.Options.OneIANA().IaId), dhcpv6.WithDNS(net.ParseIP("2001:db8::53")),
		dhcpv6.WithIANA(dhcpv6.OptIAAddress{
			IPv6Addr:          net.ParseIP("2001:db8::7"),
			PreferredLifetime: time.Hour,
			ValidLifetime:     time.Hour,
		}),
		dhcpv6.WithOption(dhcpv6.OptBootFileURL("http://[2001:db8::1]:8080")),
	}

	answer := dhcpv6.NewReplyFromMessage
	if m.Type() == dhcpv6.MessageTypeSolicit {
		answer = dhcpv6.NewAdvertiseFromSolicit
		none, err := answer(m,
			dhcpv6.WithServerID(&dhcpv6.DUIDLL{
				HWType:        1,
				LinkLayerAddr: net.HardwareAddr{2, 0, 0, 0, 0, 2},
			}), dhcpv6.WithOption(&dhcpv6.OptStatusCode{StatusCode: iana.StatusNoAddrsAvail}))
		if err != nil {
			t.Errorf("answer to %v: %v", m, err)
			return
		}
		_, _ = conn.WriteTo(none.ToBytes(), peer)
	}

	out, err := answer(m, options...)
	if err != nil {
		t.Errorf("answer to %v: %v", m, err)
		return
	}

	_, _ = conn.WriteTo(out.ToBytes(), peer)
}
