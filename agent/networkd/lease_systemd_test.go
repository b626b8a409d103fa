package networkd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/link"
	"github.com/loam-os/loam/agent/networkd"
	"github.com/loam-os/loam/firmware/osrelease"
	"github.com/loam-os/loam/test/container"
	"github.com/loam-os/loam/test/judge"
)

// connectVariable is set in a process in the network of the container, which
// connects as /init does. It has the URL that is known, or "-" for none.
const connectVariable = "LOAM_TEST_CONNECT"

// TestInitTakesALeaseAsNetworkdDoes gives each of 26 leases of DHCP, one of DHCPv6 and
// 4 announcements of routers to the image's networkd and to /init, and compares what they make of it:
// the address, the way to each of some destinations, the MTU and the name servers.
//
// They differ on purpose in what /init has no use for: host name, domain and NTP
// servers, which networkd must have taken, and name servers that only a router
// announces, as the kernel does not hand them on.
func TestInitTakesALeaseAsNetworkdDoes(t *testing.T) {
	if os.Getenv(connectVariable) != "" {
		connect(t)
		return
	}
	container.Run(t, takesLeases)
}

// connect prints the network as JSON, on a line of its own.
func connect(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Second)
	defer stop()
	url := strings.TrimPrefix(os.Getenv(connectVariable), "-")
	n, err := link.Connect(ctx, link.Client{URL: url}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\nnetwork %s\n", text)
}

// taken is what came of a lease.
type taken struct {
	Addresses, Routes, DNS []string
	MTU                    string
}

// offering is what is at the other end of the wire: one lease at a time.
type offering struct {
	lease atomic.Pointer[lease]
}

func takesLeases(t *testing.T, c *container.Container) {
	root := c.OpenRoot(t)
	sh := func(command string) string { return c.Command(t, "sh", "-c", command) }
	c.Wire(t, "[Match]\nName=peer\n[Network]\nAddress="+server.String()+"/24\n")
	var others offering
	others.serve(t, c)

	reset := func() {
		sh("systemctl stop systemd-networkd systemd-networkd.socket; ip link set wire0 down; " +
			"ip addr flush wire0; ip route flush dev wire0; ip link set wire0 mtu 1500; " +
			"sysctl -qw net.ipv6.conf.wire0.accept_ra=1 net.ipv6.conf.wire0.disable_ipv6=0 " +
			"net.ipv6.conf.wire0.addr_gen_mode=0 net.ipv6.conf.wire0.dad_transmits=0; " +
			"rm -rf /run/systemd/netif/links/* /run/systemd/netif/leases/*; " +
			"systemctl reset-failed")
	}
	leases := generated(26, judge.Pick(10, 26))
	for _, l := range append(leases, announcements()[:judge.Pick(2, 5)]...) {
		t.Run(l.name, func(t *testing.T) {
			others.lease.Store(&l)
			defer others.lease.Store(nil)

			protocol := "dhcp4: true"
			switch {
			case l.dhcp6:
				protocol = "dhcp6: true"
				serveDHCP6(t, c)
			case l.announced != nil:
				protocol = "slaac: true"
			}
			files := filesOf(t, "[{name: lan, nic: {name: wire0}, "+protocol+"}]")
			if err := networkd.Put(durable.New(root, nil), files); err != nil {
				t.Fatal(err)
			}
			reset()
			if out := sh("systemctl start systemd-networkd"); out != "" {
				t.Fatal(out)
			}
			await(t, "networkd", func() (string, bool) {
				links := networkd.Observe(root.FS(), addressed(c, t))
				up := slices.ContainsFunc(links, func(l networkd.Link) bool {
					return l.Name == "wire0" && l.Admin == "configured" && len(l.Addresses) > 0
				})
				return fmt.Sprintf("%+v", links), up
			})
			want := observe(c, t)
			given := leaseOf(t, root)
			want.DNS = strings.Fields(given["DNS"])
			diff := cmp.Diff([]string{l.host, l.domain, strings.Join(l.ntp, " ")},
				[]string{given["HOSTNAME"], given["DOMAINNAME"], given["NTP"]})
			if diff != "" {
				t.Errorf("host name, domain and NTP servers of networkd (-want +got):\n%s", diff)
			}

			reset()
			n := connectIn(t, c, l)
			got := observe(c, t)
			for _, address := range n.DNS {
				got.DNS = append(got.DNS, address.String())
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("networkd and /init (-networkd +init):\n%s", diff)
			}
		})
	}
}

// observe returns the state of the interface. An address that is not reached has no
// route.
func observe(c *container.Container, t *testing.T) taken {
	t.Helper()
	var seen taken
	family := []string{"-4"}
	for line := range strings.Lines(c.Command(t, "ip", "-o", "addr", "show", "scope", "global",
		"dev", "wire0")) {
		fields := strings.Fields(line)
		if fields[2] == "inet6" {
			family = []string{"-6"}
		}
		seen.Addresses = append(seen.Addresses, fields[3])
	}

	destinations := everywhere
	if family[0] == "-6" {
		destinations = []string{"2001:db8:5::1", "2001:db8:6::1"}
	}
	for _, to := range destinations {
		out := c.Command(t, "ip", family[0], "route", "get", to)
		way := "none"
		if fields := strings.Fields(out); slices.Contains(fields, "wire0") {
			way = "on the link"
			if i := slices.Index(fields, "via"); i > 0 {
				way = fields[i+1]
			}
		}
		seen.Routes = append(seen.Routes, to+": "+way)
	}

	seen.MTU = c.Command(t, "cat", "/sys/class/net/wire0/mtu",
		"/proc/sys/net/ipv6/conf/wire0/mtu")
	return seen
}

// leaseOf returns the lease that networkd has recorded; empty if it has none.
func leaseOf(t *testing.T, root *os.Root) map[string]string {
	t.Helper()
	names, err := os.ReadDir(root.Name() + "/run/systemd/netif/leases")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		return nil
	}
	text, err := root.ReadFile("run/systemd/netif/leases/" + names[0].Name())
	if err != nil {
		t.Fatal(err)
	}
	return osrelease.Parse(text)
}

// connectIn connects in the network of the container.
func connectIn(t *testing.T, c *container.Container, l lease) link.Network {
	t.Helper()
	url := "-"
	if l.announced != nil {
		url = "http://[2001:db8:5::1]"
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.Command("nsenter", "--net="+c.Network(), "--", os.Args[0],
		"-test.run=^"+name+"$", "-test.v")
	cmd.Env = append(os.Environ(), connectVariable+"="+url)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	_, text, _ := strings.Cut(string(out), "\nnetwork ")
	text, _, _ = strings.Cut(text, "\n")
	var n link.Network
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return n
}

// serve gives the lease of the moment to each client, until the end of the test.
func (o *offering) serve(t *testing.T, c *container.Container) {
	t.Helper()
	conn := inNetwork(t, c, func() (net.PacketConn, error) {
		return server4.NewIPv4UDPConn("peer", &net.UDPAddr{IP: net.IPv4zero, Port: dhcpv4.ServerPort})
	})
	dhcp, err := server4.NewServer("", nil, o.answer, server4.WithConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = dhcp.Serve() }() // Close ends it.
	t.Cleanup(func() { dhcp.Close(); <-done })

	router := inNetwork(t, c, listenRouter)
	ended := make(chan struct{})
	go func() { defer close(ended); o.announce(t.Context(), router) }()
	t.Cleanup(func() { <-ended; router.Close() })
}

// answer gives only the options that a client asks for, as servers do.
func (o *offering) answer(conn net.PacketConn, _ net.Addr, in *dhcpv4.DHCPv4) {
	kinds := map[dhcpv4.MessageType]dhcpv4.MessageType{
		dhcpv4.MessageTypeDiscover: dhcpv4.MessageTypeOffer,
		dhcpv4.MessageTypeRequest:  dhcpv4.MessageTypeAck,
	}
	l := o.lease.Load()
	kind, asks := kinds[in.MessageType()]
	if l == nil || l.announced != nil || !asks {
		return
	}

	answer, err := dhcpv4.NewReplyFromRequest(in,
		dhcpv4.WithMessageType(kind),
		dhcpv4.WithYourIP(l.address),
		dhcpv4.WithServerIP(server),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(server)),
		dhcpv4.WithLeaseTime(3600))
	if err != nil {
		return // The client asks again.
	}
	for _, option := range append(slices.Clone(l.options),
		dhcpv4.OptBootFileName("http://203.0.113.9")) {
		if in.IsOptionRequested(option.Code) {
			answer.UpdateOption(option)
		}
	}
	all := &net.UDPAddr{IP: net.IPv4bcast, Port: dhcpv4.ClientPort}
	_, _ = conn.WriteTo(answer.ToBytes(), all)
}

// listenRouter opens a socket for ICMPv6 that sends as routers must: with a hop limit
// of 255 (RFC 4861, section 6.1.2).
func listenRouter() (net.PacketConn, error) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "icmpv6")
	defer f.Close()
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255); err != nil {
		return nil, err
	}
	if err := unix.BindToDevice(fd, "peer"); err != nil {
		return nil, err
	}
	return net.FilePacketConn(f)
}

// announce announces the router of the moment again and again.
func (o *offering) announce(ctx context.Context, conn net.PacketConn) {
	all := &net.IPAddr{IP: net.IPv6linklocalallnodes, Zone: "peer"}
	for tick := time.Tick(100 * time.Millisecond); ; {
		if l := o.lease.Load(); l != nil && l.announced != nil {
			_, _ = conn.WriteTo(l.announced, all) // It has no address yet, or is down.
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}
