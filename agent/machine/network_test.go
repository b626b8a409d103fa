package machine_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/network"
)

// lan is a NIC with an address: what a row adds, it adds to something that is
// right.
const lan = "- {name: lan, nic: {mac: '52:54:00:12:34:56'}, addresses: [192.0.2.10/24, " +
	"'2001:db8::10/64']}\n"

// port is a NIC for a bridge.
const port = "- {name: port, nic: {driver: virtio_net}}\n"

func TestNetworkErrors(t *testing.T) {
	const (
		nameHint = "; hint: write at most 15 lower-case letters, digits, dots, " +
			"dashes and underscores, a letter first; lo, all and default are taken"
		macHint  = "; hint: write six bytes such as 52:54:00:12:34:56, in quotes; the first is even"
		addrHint = "; hint: write one with the length of its prefix, " +
			"such as 192.0.2.10/24 or 2001:db8::10/64"
		out = "; hint: write dhcp4, dhcp6 or slaac: true, or addresses, " +
			"with the one that leads out"
		modes = "; hint: write one of active-backup, 802.3ad, balance-rr, balance-xor, " +
			"broadcast, balance-tlb, balance-alb"
		at1 = "network.interfaces[1]"
	)

	for _, test := range []struct{ name, interfaces, want string }{
		{
			"no address at all",
			"- {name: lan, nic: {any: true}}\n",
			"network.interfaces: " +
				"no interface has an address: nothing would reach the node" + out,
		},
		{
			"no kind",
			lan + "- {name: a}\n",
			at1 + ": has no kind; hint: write one of nic, bond, vlan and bridge",
		},
		{
			"two kinds",
			lan + "- {name: a, bridge: {interfaces: [port]}, vlan: {id: 1, interface: lan}}\n",
			at1 +
				": has vlan and bridge at once; hint: write one of nic, bond, vlan and bridge",
		},
		{
			"no name",
			"- {nic: {any: true}, dhcp4: true}\n",
			`network.interfaces[0].name: "" is not a name for an interface` + nameHint,
		},
		{
			"a name too long for the kernel",
			lan + "- {name: abcdefghijklmnop, bridge: {interfaces: [port]}}\n" + port,
			at1 + `.name: "abcdefghijklmnop" is not a name for an interface` + nameHint,
		},
		{
			"the loopback's name",
			lan + "- {name: lo, bridge: {interfaces: [port]}}\n" + port,
			at1 + `.name: "lo" is not a name for an interface` + nameHint,
		},
		{
			"a name with a slash",
			lan + "- {name: a/b, bridge: {interfaces: [port]}}\n" + port,
			at1 + `.name: "a/b" is not a name for an interface` + nameHint,
		},
		{
			"a name twice",
			lan + "- {name: lan, bridge: {interfaces: [port]}}\n" + port,
			at1 +
				`.name: "lan" is also the name of network.interfaces[0]; hint: give each interface a name of its own`,
		},

		{
			"a NIC that is not described",
			lan + "- {name: a, nic: {}}\n",
			at1 + ".nic: has no field set; hint: write its mac, path, name or driver, " +
				"or any: true for every wired one",
		},
		{
			"any NIC, and one",
			lan + "- {name: a, nic: {any: true, driver: igb}}\n",
			at1 + ".nic.any: is true together with other fields; hint: keep one of them",
		},
		{
			"a MAC of five bytes",
			lan + "- {name: a, nic: {mac: '52:54:00:12:34'}}\n",
			at1 + `.nic.mac: "52:54:00:12:34" is not the MAC address of a NIC` + macHint,
		},
		{
			"a MAC of many",
			lan + "- {name: a, nic: {mac: '53:54:00:12:34:56'}}\n",
			at1 + `.nic.mac: "53:54:00:12:34:56" is not the MAC address of a NIC` + macHint,
		},
		{
			"a MAC of no machine",
			lan + "- {name: a, nic: {mac: '00:00:00:00:00:00'}}\n",
			at1 + `.nic.mac: "00:00:00:00:00:00" is not the MAC address of a NIC` + macHint,
		},
		{
			"a pattern for a path",
			lan + "- {name: a, nic: {path: 'pci-*'}}\n",
			at1 +
				`.nic.path: "pci-*" is not the path of a NIC; hint: write one such as pci-0000:03:00.0, as ` + "`udevadm info /sys/class/net/*` says ID_PATH",
		},
		{
			"two drivers in one",
			lan + "- {name: a, nic: {driver: igb e1000e}}\n",
			at1 +
				`.nic.driver: "igb e1000e" is not the driver of a NIC; hint: write one such as igb`,
		},
		{
			"all names but one",
			lan + "- {name: a, nic: {name: '!eth0'}}\n",
			at1 + `.nic.name: "!eth0" is not the name of a NIC; hint: write one such as enp3s0`,
		},
		{
			"the same MAC in capitals",
			lan + "- {name: a, nic: {mac: 52-54-00-12-34-56, " +
				"driver: igb}}\n",
			at1 + ".nic: chooses the same NIC, " +
				"as at network.interfaces[0].nic; hint: identify each NIC by what no other has",
		},
		{"a NIC that is made", lan + "- {name: br, bridge: {interfaces: [port]}}\n" +
			"- {name: a, nic: {name: br}}\n" + port,
			`network.interfaces[2].nic.name: "br" is made by network.interfaces[1]; hint: name another NIC, or give what is made another name`},

		{"a bond of no kind", lan + "- {name: a, nic: {driver: igb}}\n" +
			"- {name: bond, bond: {mode: '4', interfaces: [a]}}\n",
			`network.interfaces[2].bond.mode: "4" is not a mode of bonds` + modes},
		{
			"a bond of nothing",
			lan + "- {name: bond, bond: {mode: 802.3ad}}\n",
			at1 + ".bond.interfaces: is empty; hint: name the interfaces of kind nic that " +
				"it is made of",
		},
		{
			"a bond of what is not there",
			lan + "- {name: bond, bond: {mode: 802.3ad, " +
				"interfaces: [lam]}}\n",
			at1 +
				`.bond.interfaces[0]: "lam" is not the name of an interface here; hint: did you mean lan?`,
		},
		{"a bond of a bridge", lan + "- {name: br, bridge: {interfaces: [port]}}\n" +
			"- {name: bond, bond: {mode: 802.3ad, interfaces: [br]}}\n" + port,
			`network.interfaces[2].bond.interfaces[0]: "br" is not a NIC; hint: make a bond of interfaces of kind nic`},
		{
			"a bond of itself",
			lan + "- {name: bond, bond: {mode: 802.3ad, interfaces: [bond]}}\n",
			at1 +
				`.bond.interfaces[0]: "bond" is not a NIC; hint: make a bond of interfaces of kind nic`,
		},
		{"a NIC twice in a bond", "- {name: a, nic: {name: eth0}}\n" +
			"- {name: bond, bond: {mode: 802.3ad, interfaces: [a, a]}, dhcp4: true}\n",
			at1 +
				`.bond.interfaces[1]: "a" is in bond bond already; hint: name each interface in one bond or bridge, once`},
		{"a NIC in a bond and a bridge", "- {name: a, nic: {name: eth0}}\n" +
			"- {name: bond, bond: {mode: 802.3ad, interfaces: [a]}, dhcp4: true}\n" +
			"- {name: br, bridge: {interfaces: [a]}}\n",
			`network.interfaces[2].bridge.interfaces[0]: "a" is in bond bond already; hint: name each interface in one bond or bridge, once`},
		{"a primary of others", lan + "- {name: a, nic: {name: eth0}}\n" +
			"- {name: bond, bond: {mode: active-backup, interfaces: [a], primary: lan}}\n",
			`network.interfaces[2].bond.primary: "lan" is not among its interfaces; hint: name one of a`},
		{"a primary where all are used", lan + "- {name: a, nic: {name: eth0}}\n" +
			"- {name: bond, bond: {mode: 802.3ad, interfaces: [a], primary: a}}\n",
			`network.interfaces[2].bond.primary: has no effect in mode "802.3ad"; hint: leave it out, or write mode: active-backup`},
		{"a primary of several", lan + "- {name: a, nic: {driver: igb}}\n" +
			"- {name: bond, bond: {mode: active-backup, interfaces: [a], primary: a}}\n",
			`network.interfaces[2].bond.primary: "a" may match several NICs; hint: choose the primary by mac, path or name`},
		{
			"a port with an address",
			lan + "- {name: br, bridge: {interfaces: [lan]}}\n",
			"network.interfaces[0]: has addresses or routes, and is in bridge br; hint: " +
				"write them there",
		},
		{"an MTU of a port", "- {name: a, nic: {name: eth0}, mtu: 9000}\n" +
			"- {name: bond, bond: {mode: 802.3ad, interfaces: [a]}, dhcp4: true}\n",
			"network.interfaces[0].mtu: belongs to bond bond; hint: write it there"},

		{
			"VLAN 0",
			lan + "- {name: v, vlan: {id: 0, interface: lan}}\n",
			at1 + ".vlan.id: 0 is not the ID of a VLAN; hint: write one of 1 to 4094",
		},
		{
			"VLAN 4095",
			lan + "- {name: v, vlan: {id: 4095, interface: lan}}\n",
			at1 + ".vlan.id: 4095 is not the ID of a VLAN; hint: write one of 1 to 4094",
		},
		{
			"a VLAN on nothing",
			lan + "- {name: v, vlan: {id: 7}}\n",
			at1 +
				`.vlan.interface: "" is not the name of an interface here; hint: there are lan, v`,
		},
		{
			"a VLAN on itself",
			lan + "- {name: v, vlan: {id: 7, interface: v}}\n",
			at1 +
				`.vlan.interface: "v" is a VLAN itself; hint: name the nic, bond or bridge that both are on`,
		},
		{"the same VLAN twice", lan + "- {name: v, vlan: {id: 7, interface: lan}}\n" +
			"- {name: w, vlan: {id: 7, interface: lan}}\n", "network.interfaces[2].vlan: " +
			"is the same VLAN, as at " + at1 + ".vlan; hint: keep one of them"},
		{"a VLAN of a port", "- {name: a, nic: {name: eth0}}\n" +
			"- {name: br, bridge: {interfaces: [a]}, dhcp4: true}\n" +
			"- {name: v, vlan: {id: 7, interface: a}}\n",
			`network.interfaces[2].vlan.interface: "a" is in bridge br; hint: put the VLAN on that`},
		{"a VLAN of several NICs", lan + "- {name: a, nic: {driver: igb}}\n" +
			"- {name: v, vlan: {id: 7, interface: a}}\n",
			`network.interfaces[2].vlan.interface: "a" may match several NICs; hint: choose it by mac, path or name`},
		{"a bridge in itself", lan + "- {name: v, vlan: {id: 7, interface: br}}\n" +
			"- {name: br, bridge: {interfaces: [v]}}\n",
			`network.interfaces[2].bridge.interfaces[0]: "v" leads back to this bridge: it would be in itself; hint: put the VLAN on a NIC or bond`},
		{"two bridges in each other", lan + "- {name: b, bridge: {interfaces: [w]}}\n" +
			"- {name: c, bridge: {interfaces: [v]}}\n- {name: v, vlan: {id: 7, interface: b}}\n" +
			"- {name: w, vlan: {id: 7, interface: c}}\n",
			at1 +
				`.bridge.interfaces[0]: "w" leads back to this bridge: it would be in itself; hint: put the VLAN on a NIC or bond` + "\nm:7: network.interfaces[2]" + `.bridge.interfaces[0]: "v" leads back to this bridge: it would be in itself; hint: put the VLAN on a NIC or bond`},
		{
			"a bridge of nothing",
			lan + "- {name: br, bridge: {interfaces: []}}\n",
			at1 + ".bridge.interfaces: is empty; hint: " +
				"name the interfaces that the bridge connects",
		},
		{"a bridge in a bridge", lan + "- {name: a, bridge: {interfaces: [b]}}\n" +
			"- {name: b, bridge: {interfaces: [a]}}\n",
			at1 +
				`.bridge.interfaces[0]: "b" is a bridge itself; hint: name what is to be in both in one of them` + "\nm:7: network.interfaces[2]" + `.bridge.interfaces[0]: "a" is a bridge itself; hint: name what is to be in both in one of them`},

		{
			"an MTU that is too small",
			"- {name: a, nic: {any: true}, dhcp4: true, mtu: 575}\n",
			"network.interfaces[0].mtu: 575 is not one of 576 to 65535; hint: " +
				"write the bytes that a packet may have, such as 1500 or 9000",
		},
		{
			"an MTU too small for IPv6",
			"- {name: a, nic: {any: true}, slaac: true, mtu: 1279}\n",
			"network.interfaces[0].mtu: 1279 is not one of 1280 to 65535; hint: " +
				"write the bytes that a packet may have, such as 1500 or 9000",
		},
		{
			"a VLAN with larger packets than its NIC",
			lan + "- {name: v, vlan: {id: 7, " +
				"interface: lan}, mtu: 9000}\n",
			at1 + ".mtu: 9000 is more than the 1500 of lan, " +
				"which it is on; hint: write an mtu for that as well",
		},

		{
			"a bridge with larger packets than what is in it",
			"- {name: a, nic: {name: eth0}, " +
				"mtu: 9000}\n- {name: b, nic: {name: eth1}}\n" +
				"- {name: v, vlan: {id: 7, interface: a}}\n" +
				"- {name: br, bridge: {interfaces: [v, b]}, mtu: 9000, dhcp4: true}\n",
			"network.interfaces[3].mtu: 9000 is more than the 1500 of b, which is in it; hint: " +
				"write an mtu for that as well",
		},

		{
			"an address without a prefix",
			"- {name: a, nic: {name: eth0}, addresses: " +
				"[192.0.2.10]}\n",
			`network.interfaces[0].addresses[0]: "192.0.2.10" is not the address of an interface` +
				addrHint,
		},
		{
			"an address of many",
			"- {name: a, nic: {name: eth0}, addresses: [224.0.0.1/24]}\n",
			`network.interfaces[0].addresses[0]: "224.0.0.1/24" is not the address of an interface` + addrHint,
		},
		{
			"an IPv4 address in IPv6",
			"- {name: a, nic: {name: eth0}, addresses: " +
				"['::ffff:192.0.2.1/120']}\n",
			`network.interfaces[0].addresses[0]: "::ffff:192.0.2.1/120" is not the address of an interface` + addrHint,
		},
		{
			"the address of the network",
			"- {name: a, nic: {name: eth0}, addresses: " +
				"[192.0.2.0/24]}\n",
			`network.interfaces[0].addresses[0]: "192.0.2.0/24" is the address of a network, not of a machine; hint: write the address of this node, such as 192.0.2.1/24`,
		},
		{
			"the broadcast address",
			"- {name: a, nic: {name: eth0}, addresses: " +
				"[192.0.2.127/25]}\n",
			`network.interfaces[0].addresses[0]: "192.0.2.127/25" is the broadcast address of the network; hint: write the address of this node`,
		},
		{
			"an address twice",
			lan + "- {name: a, nic: {name: eth0}, addresses: " +
				"['2001:DB8:0::10/120']}\n",
			at1 + ".addresses[0]: given twice, " +
				"as at network.interfaces[0].addresses[1]; hint: give it to one interface, once",
		},
		{
			"one address for several NICs",
			"- {name: a, nic: {driver: igb}, addresses: " +
				"[192.0.2.10/24]}\n",
			"network.interfaces[0].addresses: belong to a single NIC, " +
				"and this may match several; hint: choose the NIC by mac, path or name",
		},

		{
			"a default route to nowhere",
			route("{}"),
			"network.interfaces[0].routes[0].via: " +
				"is empty; hint: write the gateway of the default route",
		},
		{
			"a gateway that is a name",
			route("{via: router}"),
			`network.interfaces[0].routes[0].via: "router" is not the address of a gateway; hint: write one such as 192.0.2.1`,
		},
		{
			"a gateway that is not on the link",
			route("{via: 192.0.3.1}"),
			"network.interfaces[0].routes[0].via: 192.0.3.1 is in no network of the interface; " +
				"hint: write onLink: true if it is on the link nevertheless",
		},
		{
			"on the link, and no gateway that could be",
			route("{to: 198.51.100.0/24, onLink: true}"),
			"network.interfaces[0].routes[0].onLink: is set without via; " +
				"hint: leave it out, or write via",
		},
		{
			"the loopback interface as a NIC",
			lan + "- {name: a, nic: {name: lo}, dhcp4: true}\n",
			at1 + `.nic.name: "lo" is the node itself, not a NIC; hint: write one such as enp3s0`,
		},
		{
			"a gateway that is the broadcast address",
			route("{via: 192.0.2.255}"),
			"network.interfaces[0].routes[0].via: 192.0.2.255 is the broadcast address of a network; " +
				"hint: write the address of the gateway",
		},
		{
			"a gateway that is the node",
			route("{via: 192.0.2.10}"),
			"network.interfaces[0].routes[0].via: 192.0.2.10 is this node; hint: " +
				"write the address of the gateway",
		},
		{
			"a gateway of another family",
			route("{via: '2001:db8::1'}"),
			"network.interfaces[0].routes[0].via: the interface has no address of the family of " +
				"2001:db8::1; hint: write one in addresses, dhcp4, dhcp6 or slaac",
		},
		{
			"a route between families",
			route("{to: '2001:db8::/32', via: 192.0.2.1}"),
			`network.interfaces[0].routes[0].to: "2001:db8::/32" and the gateway 192.0.2.1 are of different families; hint: write both as IPv4 or both as IPv6`,
		},
		{
			"a route to a machine in a network",
			route("{to: 198.51.100.7/24, via: 192.0.2.1}"),
			`network.interfaces[0].routes[0].to: "198.51.100.7/24" is an address in a network; hint: write the network: 198.51.100.0/24`,
		},
		{
			"a route to no network",
			route("{to: all, via: 192.0.2.1}"),
			`network.interfaces[0].routes[0].to: "all" is not a network; hint: write one such as 198.51.100.0/24, or "default"`,
		},
		{
			"a metric below zero",
			route("{via: 192.0.2.1, metric: -1}"),
			"network.interfaces[0].routes[0].metric: -1 is not a metric; hint: " +
				"write one of 1 to 4294967295: less goes first",
		},
		{
			"two default routes that are equal",
			route("{via: 192.0.2.1}, {to: 0.0.0.0/0, via: 192.0.2.2}"),
			"network.interfaces[0].routes[1]: has the destination and the " +
				"metric of another route, as at network.interfaces[0].routes[0]; hint: " +
				"give each a metric: less goes first",
		},

		{
			"DNS by name",
			"- {name: a, nic: {any: true}, dhcp4: true, dns: {servers: " +
				"[ns.example]}}\n",
			`network.interfaces[0].dns.servers[0]: "ns.example" is not the address of a server; hint: write one such as 192.0.2.53 or 2001:db8::53`,
		},
		{
			"a DNS server twice",
			"- {name: a, nic: {any: true}, dhcp4: true, dns: {servers: " +
				"[192.0.2.53, 192.0.2.53]}}\n",
			"network.interfaces[0].dns.servers[1]: " +
				"given twice, as at network.interfaces[0].dns.servers[0]; hint: keep one of them",
		},
		{
			"no domain",
			"- {name: a, nic: {any: true}, dhcp4: true, dns: {search: " +
				"['site example']}}\n",
			`network.interfaces[0].dns.search[0]: "site example" is not a domain; hint: write one such as site.example`,
		},
		{
			"a time server mistyped",
			"- {name: a, nic: {any: true}, dhcp4: true, ntp: " +
				"[192.0.2.300]}\n",
			`network.interfaces[0].ntp[0]: "192.0.2.300" is not a time server; hint: write its name or address`,
		},
		{
			"an unknown client ID",
			lan + "- {name: a, nic: {name: eth0}, dhcp4: true, clientID: MAC}\n",
			`network.interfaces[1].clientID: "MAC" is not a client ID; hint: write one of machine, mac`,
		},
		{
			"a client ID for no DHCP server",
			lan + "- {name: a, nic: {name: eth0}, slaac: true, clientID: mac}\n",
			"network.interfaces[1].clientID: has no effect without dhcp4; hint: " +
				"leave it out, or write dhcp4: true",
		},
		{
			"DNS without a way to it",
			lan + "- {name: a, nic: {name: eth0}, dns: {servers: " +
				"[192.0.2.53]}}\n",
			at1 + ": has routes, dns or ntp, and no address; hint: " +
				"write dhcp4, dhcp6 or slaac: true, or addresses",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := machine.Decode("m", []byte(head+"network:\n"+
				"  interfaces:\n"+indent(test.interfaces)))
			if err == nil {
				t.Fatal("Decode: no error")
			}
			_, got, _ := strings.Cut(err.Error(), " ") // The line is document's matter.
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Decode (-want +got):\n%s", diff)
			}
		})
	}
}

// route is a NIC with an IPv4 address, and with these routes.
func route(routes string) string {
	return "- {name: a, nic: {name: eth0}, addresses: [192.0.2.10/24], routes: [" + routes + "]}\n"
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
}

func TestHostnameFromIsDHCPOrSerial(t *testing.T) {
	for text, want := range map[string]string{
		"hostnameFrom: dhcp\n":   "",
		"hostnameFrom: serial\n": "",
		"hostnameFrom: bios\n":   `m:3: hostnameFrom: "bios" is not known here; hint: write dhcp or serial, or a hostname instead`,
		"hostname: a\nhostnameFrom: dhcp\n": "m:4: hostnameFrom: " +
			"is set as well as hostname; hint: " +
			"keep one of them",
	} {
		_, err := machine.Decode("m", []byte(head+text))
		if got := message(err); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// line is what a file of networkd may have that we write: no value with a
// blank, a specifier or a pattern but our own.
var line = regexp.MustCompile(`^(\[[A-Za-z0-9]+\]|[A-Za-z0-9]+=([A-Za-z0-9:./,_@-]+|!\*)|` +
	`Property=ID_NET_DRIVER=[A-Za-z0-9_-]+|)$`)

// FuzzNetwork checks that an accepted network becomes files whose lines mean
// what they say, with one file for each name.
func FuzzNetwork(f *testing.F) {
	found, err := filepath.Glob("../network/testdata/*.txtar")
	if err != nil || len(found) == 0 {
		f.Fatal("no seeds", err)
	}

	for _, name := range found {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "-- machine.yaml --\n")
		seed, _, _ := strings.Cut(rest, "\n-- ")
		f.Add([]byte(seed + "\n"))
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := machine.Decode("m", text)
		if err != nil {
			return
		}

		files := network.Render(m.Network)
		want := len(m.Network.Interfaces)
		for _, i := range m.Network.Interfaces {
			if i.NIC == nil {
				want++
			}
		}

		if want > 0 && len(files) != want+1 {
			t.Errorf("%d files of %+v", len(files), m.Network)
		}

		for name, text := range files {
			for one := range strings.SplitSeq(text, "\n") {
				if !line.MatchString(one) {
					t.Errorf("%s: %q", name, one)
				}
			}
		}

		kept, err := files.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := network.ParseFiles(kept); err != nil || cmp.Diff(files, again) != "" {
			t.Errorf("kept: %v %s", err, cmp.Diff(files, again))
		}
	})
}
