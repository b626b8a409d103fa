package neighbour

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/loam-os/loam/test/ethernet"
)

// TestMAC asks a real kernel, for what it has learned and for what it has not.
func TestMAC(t *testing.T) {
	if !ethernet.Own(t) {
		return
	}

	hub := ethernet.New(t, 0)
	hub.Device("link0", netip.MustParsePrefix("192.0.2.1/24"))
	device, err := netlink.LinkByName("link0")
	if err != nil {
		t.Fatal(err)
	}

	known := net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56}
	for address, n := range map[string]netlink.Neigh{
		"192.0.2.7":     {HardwareAddr: known, State: netlink.NUD_REACHABLE},
		"2001:db8::7":   {HardwareAddr: known, State: netlink.NUD_STALE},
		"192.0.2.8":     {State: netlink.NUD_INCOMPLETE},
		"192.0.2.9":     {HardwareAddr: make(net.HardwareAddr, 6), State: netlink.NUD_NOARP},
		"fe80::1234:56": {HardwareAddr: known, State: netlink.NUD_DELAY},
	} {
		n.IP = net.ParseIP(address)
		n.LinkIndex = device.Attrs().Index
		if err := netlink.NeighSet(&n); err != nil {
			t.Fatalf("%s: %v", address, err)
		}
	}

	for address, want := range map[string]string{
		"192.0.2.7":           known.String(),
		"::ffff:192.0.2.7":    known.String(),
		"2001:db8::7":         known.String(),
		"fe80::1234:56%link0": known.String(),
		"192.0.2.8":           "",
		"192.0.2.9":           "",
		"192.0.2.10":          "",
		"2001:db8::8":         "",
	} {
		if got := MAC(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

func TestOf(t *testing.T) {
	table := map[string]string{
		"192.0.2.7":   "52:54:00:00:00:01",
		"192.0.2.8":   "52:54:00:00:00:01",
		"2001:db8::7": "52:54:00:00:00:01",
		"2001:db8::8": "52:54:00:00:00:02",
	}
	for address, want := range map[string]string{
		"192.0.2.7":             "52:54:00:00:00:01",
		"192.0.2.8":             "52:54:00:00:00:01",
		"2001:db8::7":           "52:54:00:00:00:01",
		"2001:db8::8":           "52:54:00:00:00:02",
		"198.51.100.1":          "198.51.100.1",
		"::ffff:198.51.100.1":   "198.51.100.1",
		"2001:db8:1::1":         "2001:db8:1::/64",
		"2001:db8:1::ffff:ffff": "2001:db8:1::/64",
		"2001:db8:1:1::1":       "2001:db8:1:1::/64",
		"fe80::1%eth0":          "fe80::/64",
	} {
		got := of(netip.MustParseAddr(address), func(a netip.Addr) string {
			return table[a.String()]
		})
		if got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}
