package agent

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/networkd"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/container"
)

const (
	// dhcpServer names every client.
	dhcpServer = "[Match]\nName=peer\n[Network]\nAddress=198.51.100.1/24\nDHCPServer=yes\n[DHCPServer]\nPersistLeases=no\nSendOption=12:string:Node-7.Site\n"

	nameless = "apiVersion: loam.dev/v1alpha1\nkind: Machine\nhostnameFrom: dhcp\nsource: {file: {path: /srv/config.yaml}}\n"
	byDHCP   = "network: {interfaces: [{name: lan, nic: {name: wire0}, dhcp4: true}]}\n"
	byHand   = "network: {interfaces: [{name: lan, nic: {name: wire0}, addresses: [192.0.2.10/24]}]}\n"

	credential = "etc/credstore/loam.machine"
)

// TestNetworkOfTheNode walks through a node's boots: the image's networkd, its
// agent, a DHCP server at the other end of a wire.
func TestNetworkOfTheNode(t *testing.T) { container.Run(t, networkOfTheNode) }

// networked is a node on a wire.
type networked struct {
	*container.Container
	t       *testing.T
	root    *os.Root
	systemd *unit.Systemd
}

func networkOfTheNode(t *testing.T, c *container.Container) {
	n := networked{Container: c, t: t, root: c.OpenRoot(t)}
	c.Command(t, "systemctl", "stop", "loam-agent") // The image's, which has no program here.
	install(t, n.root)
	write(t, n.root, "srv/active", "none\n")
	write(
		t,
		n.root,
		"usr/lib/systemd/system/loam-agent.service",
		strings.Replace(
			agentUnit,
			"[Unit]\n",
			"[Unit]\nBefore=systemd-networkd.service\nStartLimitIntervalSec=0\n",
			1,
		),
	)
	n.systemd = c.Connect(t)
	defer func() {
		if t.Failed() {
			t.Log(c.Command(t, "journalctl", "--no-pager", "-n", "80",
				"-u", "loam-agent", "-u", "systemd-networkd", "-u", "outside"))
		}
	}()
	c.Wire(t, dhcpServer)
	if err := n.systemd.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}

	write(t, n.root, credential, nameless+byDHCP)
	n.start("loam-agent.service")
	n.await("it waits for a name, and follows no configuration", func(s status.Status) bool {
		return s.Network != nil && s.Network.From == status.NetworkOfMachine &&
			s.Phase == status.Waiting &&
			strings.Contains(strings.Join(s.Warnings, " "), "waits for one")
	})
	n.start(networkd.Unit)
	n.await("it has the name that the server says, and its configuration", func(s status.Status) bool {
		return s.Hostname == "node-7.site" && s.Phase == status.Applied && len(s.Warnings) == 0 &&
			n.has(s, "198.51.100.")
	})

	write(t, n.root, "srv/peer.network", strings.Replace(dhcpServer, "Node-7", "Node-8", 1))
	n.Command(t, "systemctl", "restart", "outside", networkd.Unit)
	n.await("the server says another", func(status.Status) bool {
		return slices.Equal(networkd.Hostnames(n.root.FS()), []string{"Node-8.Site"})
	})
	n.restart("loam-agent.service")
	n.await("the name that was taken stays", func(s status.Status) bool {
		return s.Hostname == "node-7.site" &&
			s.Phase == status.Applied
	})

	write(t, n.root, credential, nameless+byHand)
	n.restart("loam-agent.service")
	n.await("another network waits for the next boot", func(s status.Status) bool {
		return s.Network.Next && s.Network.From == status.NetworkKept && n.has(s, "198.51.100.")
	})
	n.boot()
	n.await("and is there then", func(s status.Status) bool {
		return !s.Network.Next && s.Network.From == status.NetworkOfMachine &&
			n.has(s, "192.0.2.10/24")
	})

	write(t, n.root, credential, nameless+strings.Replace(byHand, "/24", "/33", 1))
	n.boot()
	n.await("a document that is wrong changes nothing", func(s status.Status) bool {
		return s.Error != nil && s.Error.Path == "network.interfaces[0].addresses[0]" &&
			s.Network.From == status.NetworkKept && n.has(s, "192.0.2.10/24")
	})
	n.remove(credential)
	n.boot()
	n.await("nor does a server that is gone", func(s status.Status) bool {
		return s.Machine == "" && s.Network.From == status.NetworkKept && n.has(s, "192.0.2.10/24")
	})

	n.remove(networkd.Record)
	n.boot()
	n.await("a node that never had one has the image's", func(s status.Status) bool {
		return s.Machine == "" &&
			s.Network.From == status.NetworkOfImage
	})
	write(t, n.root, credential, nameless+byHand)
	n.restart("loam-agent.service")
	n.await("of a node that has a configuration, the first document of a boot cuts nothing off", func(s status.Status) bool {
		return s.Network.Next && s.Network.From == status.NetworkOfImage
	})
	n.remove(credential)
	n.remove(networkd.Record)
	// An agent that runs would put back what is removed.
	n.Command(t, "systemctl", "stop", "loam-agent.service")
	n.Command(t, "rm", "-r", "/var/lib/loam/os", "/var/lib/loam/generations")
	n.boot()
	n.await("a node without any has the image's", func(s status.Status) bool {
		return s.Machine == "" &&
			s.Network.From == status.NetworkOfImage
	})
	write(t, n.root, credential, nameless+byHand)
	n.restart("loam-agent.service")
	n.await("of one without, it counts at once", func(s status.Status) bool {
		return !s.Network.Next && s.Network.From == status.NetworkOfMachine &&
			n.has(s, "192.0.2.10/24")
	})

	before := n.networkd()
	write(t, n.root, "run/loam/network-unread", "")
	n.restart("loam-agent.service")
	n.await("what an agent that died had put is read", func(status.Status) bool {
		return n.networkd() != before &&
			!networkd.Unread(n.root)
	})
}

// networkd names the run of networkd.
func (n networked) networkd() string {
	n.t.Helper()
	states, err := n.systemd.Show(n.t.Context(), []string{networkd.Unit})
	if err != nil {
		n.t.Fatal(err)
	}
	return states[0].InvocationID
}

// boot is what matters here of a boot, without /init: /run is new, and the
// agent comes before networkd.
func (n networked) boot() {
	n.t.Helper()
	n.Command(
		n.t,
		"sh",
		"-c",
		"systemctl stop systemd-networkd.socket systemd-networkd loam-agent; systemctl reset-failed; rm -rf /run/loam/network /run/loam/status.json /run/systemd/network /run/systemd/netif/*; ip addr flush dev wire0; ip link set wire0 down",
	)
	n.start("loam-agent.service")
	n.start(networkd.Unit)
}

func (n networked) start(name string) {
	n.t.Helper()
	if err := n.systemd.Start(n.t.Context(), name); err != nil {
		n.t.Fatal(err)
	}
}

func (n networked) restart(name string) {
	n.t.Helper()
	if err := n.systemd.Restart(n.t.Context(), name); err != nil {
		n.t.Fatal(err)
	}
}

func (n networked) remove(name string) {
	n.t.Helper()
	if err := n.root.Remove(name); err != nil {
		n.t.Fatal(err)
	}
}

// has reports whether an interface has an address that begins so.
func (n networked) has(s status.Status, address string) bool {
	return slices.ContainsFunc(s.Network.Interfaces, func(i status.Interface) bool {
		return i.As == "lan" &&
			slices.ContainsFunc(
				i.Addresses,
				func(a string) bool { return strings.HasPrefix(a, address) },
			)
	})
}

// await polls the status until it is right.
func (n networked) await(what string, right func(status.Status) bool) {
	n.t.Helper()
	var now status.Status
	for start, tick := time.Now(), time.Tick(50*time.Millisecond); ; <-tick {
		now = saidBefore(n.root)
		if now.Phase != "" && right(now) {
			return
		}
		if time.Since(start) > time.Minute {
			n.t.Fatalf("%s: not so, but\n%s", what, now.Table(status.View{Width: 120}))
		}
	}
}
