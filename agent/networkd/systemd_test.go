package networkd_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/network"
	"github.com/loam-os/loam/agent/networkd"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/container"
	"github.com/loam-os/loam/test/files"
)

// router is at the other end of the wire.
const router = `[Match]
Name=peer
[Network]
Address=198.51.100.1/24
Address=2001:db8:1::1/64
DHCPServer=yes
IPv6SendRA=yes
[DHCPServer]
PersistLeases=no
DNS=198.51.100.53
SendOption=12:string:Node-7.Site.Example
SendOption=26:uint16:1400
[IPv6SendRA]
DNS=2001:db8:1::53
[IPv6Prefix]
Prefix=2001:db8:1::/64
`

// situation is a machine.yaml and its result.
type situation struct {
	name, interfaces string
	// before changes the wire. This node's end of it is wire0.
	before string
	// holds are commands and what they must print eventually.
	holds []holds
	// problems are those in the status then.
	problems []string
}

type holds struct{ command, has string }

var situations = []situation{
	{
		name:       "static addresses, routes, MTU",
		interfaces: `[{name: lan, nic: {name: wire0}, mtu: 1400, addresses: [192.0.2.10/24, "2001:db8::10/64"], routes: [{via: 192.0.2.1, metric: 50}, {to: 203.0.113.0/24, via: 10.1.1.1, onLink: true}, {to: 203.0.114.0/25}, {via: "fe80::1"}], dns: {servers: [192.0.2.53], search: [site.example]}, ntp: [ntp.site.example]}]`,
		holds: []holds{
			{"ip -o addr show wire0", "inet 192.0.2.10/24"},
			{"ip -o addr show wire0", "inet6 2001:db8::10/64"},
			{"cat /sys/class/net/wire0/mtu", "1400"},
			{"ip route", "default via 192.0.2.1 dev wire0 proto static metric 50"},
			{"ip route", "203.0.113.0/24 via 10.1.1.1 dev wire0 proto static onlink"},
			{"ip route", "203.0.114.0/25 dev wire0 proto static scope link"},
			{"ip -6 route", "default via fe80::1 dev wire0 proto static"},
			{"networkctl status wire0", "DNS: 192.0.2.53"},
			{"networkctl status wire0", "NTP: ntp.site.example"},
			{"networkctl status wire0", "Search Domains: site.example"},
			{"cat /proc/sys/net/ipv6/conf/wire0/accept_ra", "0"},
		},
	},
	{
		name:       "DHCP for IPv4",
		interfaces: `[{name: lan, nic: {name: wire0}, dhcp4: true}]`,
		holds: []holds{
			{"ip -o addr show wire0", "inet 198.51.100."},
			{"networkctl status wire0", "DNS: 198.51.100.53"},
			{"ip route", "default via 198.51.100.1 dev wire0 proto dhcp"},
			{"cat /sys/class/net/wire0/mtu", "1400"},
		},
	},
	{
		name:       "a DHCP client known by its MAC address",
		interfaces: `[{name: lan, nic: {name: wire0}, dhcp4: true, clientID: mac}]`,
		holds: []holds{
			{"ip -o addr show wire0", "inet 198.51.100."},
			{
				"networkctl status wire0 | sed -n 's/^ *DHCPv4 Client ID: *//p;s/^ *Hardware Address: \\([^ ]*\\).*/\\1/p' | sort | uniq -d | wc -l",
				"1",
			},
		},
	},
	{
		name:       "an MTU of machine.yaml beside DHCP",
		interfaces: `[{name: lan, nic: {name: wire0}, mtu: 1450, dhcp4: true}]`,
		holds: []holds{
			{"ip -o addr show wire0", "inet 198.51.100."},
			{"cat /sys/class/net/wire0/mtu", "1450"},
		},
	},
	{
		name:       "a NIC without a cable, which network-online.target does not wait for",
		interfaces: `[{name: lan, nic: {name: wire0}, dhcp4: true}, {name: spare, nic: {name: spare0}, dhcp4: true}]`,
		before:     "ip link add spare0 type veth peer name spare1",
		holds:      []holds{{waitOnline() + " --timeout=60 && echo online", "online"}},
		problems: []string{
			"spare0 (spare): no carrier: nothing is at the other end, or it is off",
		},
	},
	{
		name:       "IPv6 only, of what the router announces",
		interfaces: `[{name: lan, nic: {name: wire0}, slaac: true}]`,
		holds: []holds{
			{"ip -o -6 addr show wire0", "inet6 2001:db8:1:"},
			{"networkctl status wire0", "DNS: 2001:db8:1::53"},
			{"ip -6 route", "default nhid"},
			{"ip -o -4 addr show wire0 | wc -l", "0"},
		},
	},
	{
		name:       "DHCP for IPv6, with the router's word on the way out only",
		interfaces: `[{name: lan, nic: {name: wire0}, dhcp6: true}]`,
		holds: []holds{
			{"ip -o -6 addr show wire0", "inet6 2001:db8:6::66/128"},
			{"ip -6 route", "default nhid"},
			{"ip -o -6 addr show wire0 | grep -c 2001:db8:1:", "0"},
		},
	},
	{
		name:       "a bridge",
		interfaces: `[{name: lan, nic: {name: wire0}}, {name: br0, bridge: {interfaces: [lan], mac: "52:54:00:12:34:58"}, addresses: [192.0.2.10/24]}]`,
		holds: []holds{
			{"ip -o addr show br0", "inet 192.0.2.10/24"},
			{"ip link show wire0", "master br0"},
			{
				"cat /sys/class/net/br0/address /sys/class/net/br0/bridge/stp_state",
				"52:54:00:12:34:58\n0\n",
			},
		},
	},
	{
		name:       "a NIC that is not there, and a VLAN on it",
		interfaces: `[{name: lan, nic: {mac: "52:54:00:12:34:56"}, addresses: [192.0.2.10/24]}, {name: storage, vlan: {id: 7, interface: lan}}, {name: other, nic: {name: wire0}, addresses: [192.0.2.11/24]}]`,
		holds:      []holds{{"ip -o addr show wire0", "inet 192.0.2.11/24"}},
		problems: []string{
			"lan: this machine has no such NIC, or another entry means it: " +
				"PermanentMACAddress=52:54:00:12:34:56, Kind=!*, Type=ether",
			"storage: it could not be made (`loam logs systemd-networkd`)",
		},
	},
	{
		name:       "nothing at the other end",
		interfaces: `[{name: lan, nic: {name: wire0}, addresses: [192.0.2.10/24]}]`,
		before:     "ip -n outside link set port down",
		problems:   []string{"wire0 (lan): no carrier: nothing is at the other end, or it is off"},
	},
	{
		name:       "no server",
		interfaces: `[{name: lan, nic: {name: wire0}, dhcp4: true}]`,
		before:     "systemctl stop outside; ip -n outside link set port up",
		problems:   []string{"wire0 (lan): it has no address yet"},
	},
}

// waitOnline is the command for which network-online.target waits in the image.
func waitOnline() string {
	const file = "../../mkosi/mkosi.extra/usr/lib/systemd/system/" +
		"systemd-networkd-wait-online.service.d/10-loam.conf"
	text, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	_, command, _ := strings.Cut(string(text), "ExecStart=/")
	return "/" + strings.TrimSpace(command)
}

// TestSituationsInNetworkd gives each situation to the image's networkd, with
// a wire for each.
func TestSituationsInNetworkd(t *testing.T) { container.Run(t, whatNetworkdMakes) }

func whatNetworkdMakes(t *testing.T, c *container.Container) {
	root := c.OpenRoot(t)
	sh := func(command string) string { return c.Command(t, "sh", "-c", command) }
	c.Wire(t, router)
	serveDHCP6(t, c)

	for _, s := range situations {
		t.Run(s.name, func(t *testing.T) {
			defer sh("systemctl stop systemd-networkd systemd-networkd.socket; " +
				"ip link set wire0 down; ip addr flush wire0; ip link set wire0 mtu 1500; " +
				"ip link del br0; ip link del spare0; rm -rf /run/systemd/netif/*; systemctl reset-failed")
			defer func() {
				if t.Failed() {
					t.Log(sh("journalctl --no-pager -b -o short-monotonic -u outside -u systemd-networkd | " +
						"tail -n 500; cat /proc/uptime; ip -d addr show wire0; " +
						"ip netns exec outside ip -d addr show peer"))
				}
			}()

			if out := sh(s.before); out != "" {
				t.Fatal(out)
			}

			files := filesOf(t, s.interfaces)
			if err := networkd.Put(durable.New(root, nil), files); err != nil {
				t.Fatal(err)
			}

			if out := sh("systemctl start systemd-networkd"); out != "" {
				t.Fatal(out)
			}

			for _, h := range s.holds {
				await(t, h.command+": "+h.has, func() (string, bool) {
					out := sh(h.command)
					return out, strings.Contains(out, h.has)
				})
			}

			var got status.Network
			await(t, fmt.Sprint(s.problems), func() (string, bool) {
				got = networkd.Judge(files, networkd.Observe(root.FS(), addressed(c, t)))
				return fmt.Sprintf("%+v", got), slices.Equal(got.Problems, s.problems)
			})

			if strings.Contains(s.interfaces, "[{name: lan, nic: {name: wire0}, dhcp4: true}]") &&
				s.problems == nil {
				names := networkd.Hostnames(root.FS())
				if !slices.Equal(names, []string{"Node-7.Site.Example"}) {
					t.Errorf("host names %q", names)
				}
			}

			t.Logf("%+v", got)
			wrong := sh("journalctl --no-pager -b -o cat -u systemd-networkd | grep -E " +
				"'/run/(systemd|loam)/network.*(gnoring|nknown|nvalid)'")
			if !strings.HasPrefix(wrong, "exit status 1") {
				t.Errorf("networkd says: %s", wrong)
			}
		})
	}

	if sh("hostname") != sh("cat /proc/sys/kernel/hostname") ||
		strings.Contains(strings.ToLower(sh("hostname")), "node-7") {
		t.Errorf("networkd has named the node: %s", sh("hostname"))
	}
}

func filesOf(t *testing.T, interfaces string) network.Files {
	t.Helper()
	m, err := machine.Decode("machine.yaml", []byte("apiVersion: loam.dev/v1alpha1\n"+
		"kind: Machine\nnetwork:\n  interfaces: "+interfaces+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return network.Render(m.Network)
}

// addressed is networkd.Addressed in the container, with names only.
func addressed(c *container.Container, t *testing.T) func(int) (string, []string) {
	return func(index int) (string, []string) {
		var addresses []string
		name := ""
		for line := range strings.Lines(c.Command(t, "ip", "-o", "link")) {
			if fields := strings.Fields(line); fields[0] == fmt.Sprint(index, ":") {
				name, _, _ = strings.Cut(strings.Trim(fields[1], ":"), "@")
			}
		}

		for line := range strings.Lines(c.Command(t, "ip", "-o", "addr", "show", "scope",
			"global", "dev", name)) {
			if fields := strings.Fields(line); len(fields) > 3 {
				addresses = append(addresses, fields[3])
			}
		}

		return name, addresses
	}
}

// await polls until holds.
func await(t *testing.T, what string, holds func() (string, bool)) {
	t.Helper()
	start := time.Now()
	for tick := time.Tick(50 * time.Millisecond); ; <-tick {
		out, ok := holds()
		if ok {
			return
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("%s: not so\n%s", what, out)
		}
	}
}

// TestRecordedNetworkIsWritten: what is recorded comes back unchanged and can
// be removed; renaming a link replaces one set by another.
func TestRecordedNetworkIsWritten(t *testing.T) {
	root := files.Root(t)

	node := durable.New(root, nil)
	for _, files := range []network.Files{
		filesOf(t, `[{name: a, nic: {any: true}, dhcp4: true}]`),
		filesOf(t, `[{name: b, nic: {any: true}, dhcp4: true}]`),
		nil,
	} {
		if err := networkd.Keep(node, files); err != nil {
			t.Fatal(err)
		}

		kept, err := networkd.Kept(root)
		if err != nil {
			t.Fatal(err)
		}
		if err := networkd.Put(node, kept); err != nil {
			t.Fatal(err)
		}

		if have, err := networkd.InForce(root); err != nil || len(have) != len(files) ||
			fmt.Sprint(have) != fmt.Sprint(files) {
			t.Errorf("%v, %v; want %v", have, err, files)
		}
	}

	if err := root.WriteFile(networkd.Record, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}

	if _, err := networkd.Kept(root); err == nil ||
		!strings.Contains(err.Error(), networkd.Record) {
		t.Errorf("a damaged record: %v", err)
	}
}
