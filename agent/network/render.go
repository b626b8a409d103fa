package network

import (
	"fmt"
	"slices"
	"strings"
)

// Default is the image's own file, which a file with the same name in Dir
// hides.
const Default = "80-loam-ethernet.network"

// Render returns c as files of systemd-networkd, by their names in Dir:
// systemd.network(5), systemd.netdev(5). The zero Config has no files.
func Render(c Config) Files {
	if c.IsZero() {
		return nil
	}
	files := Files{Default: ""} // An empty file hides it.
	for _, i := range c.Interfaces {
		files[stem(i)+".network"] = c.network(i)
		if i.NIC == nil {
			files[stem(i)+".netdev"] = netdev(i)
		}
	}
	return files
}

// stem returns the name of the files of i, without the suffix. networkd takes
// the first by name of several that match an interface.
func stem(i Interface) string {
	rank := 10
	switch n := i.NIC; {
	case n == nil, n.One():
	case n.Driver != "":
		rank = 20
	default:
		rank = 30
	}
	return fmt.Sprintf("%d-loam-%s", rank, i.Name)
}

// text is an ini file under construction.
type text struct{ strings.Builder }

func (t *text) section(name string) {
	if t.Len() > 0 {
		t.WriteByte('\n')
	}
	t.WriteString("[" + name + "]\n")
}

// set writes a line, unless the value is empty.
func (t *text) set(key, value string) {
	if value != "" {
		t.WriteString(key + "=" + value + "\n")
	}
}

func (t *text) setAll(key string, values []string) {
	for _, value := range values {
		t.set(key, value)
	}
}

func (t *text) setInt(key string, value int) {
	if value != 0 {
		fmt.Fprintf(t, "%s=%d\n", key, value)
	}
}

func (t *text) setBool(key string, value bool) {
	t.set(key, map[bool]string{true: "yes", false: "no"}[value])
}

func netdev(i Interface) string {
	var t text
	t.section("NetDev")
	t.set("Name", i.Name)
	t.set("Kind", i.Kinds()[0])

	switch {
	case i.Bond != nil:
		t.set("MACAddress", i.Bond.MAC)
		t.section("Bond")
		t.set("Mode", i.Bond.Mode)
		t.set("MIIMonitorSec", "100ms") // The kernel's default never checks the links.
	case i.VLAN != nil:
		t.section("VLAN")
		t.setInt("Id", i.VLAN.ID)
	case i.Bridge != nil:
		t.set("MACAddress", i.Bridge.MAC)
		t.section("Bridge")
		t.setBool("STP", i.Bridge.STP)
	}

	return t.String()
}

func (c Config) network(i Interface) string {
	var t text
	match(&t, i)

	if i.MTU != 0 {
		t.section("Link")
		t.setInt("MTUBytes", i.MTU)
	}

	t.section("Network")
	for _, other := range c.Interfaces {
		switch {
		case other.VLAN != nil && other.VLAN.Interface == i.Name:
			t.set("VLAN", other.Name)
		case other.Bond != nil && slices.Contains(other.Bond.Interfaces, i.Name):
			t.set("Bond", other.Name)
			if other.Bond.Primary == i.Name {
				t.setBool("PrimarySlave", true)
			}
		case other.Bridge != nil && slices.Contains(other.Bridge.Interfaces, i.Name):
			t.set("Bridge", other.Name)
		}
	}

	addresses(&t, i)
	return t.String()
}

func match(t *text, i Interface) {
	t.section("Match")
	n := i.NIC
	if n == nil {
		t.set("Name", i.Name)
		return
	}

	t.set("PermanentMACAddress", n.MAC)
	t.set("Path", n.Path)
	if n.Driver != "" {
		// networkd reads what Driver= compares once, by the NIC's name at that
		// time. If udev renames the NIC just then, nothing matches until the
		// next boot.
		t.set("Property", "ID_NET_DRIVER="+n.Driver)
	}
	t.set("Name", n.Name)

	if n.Name == "" { // An interface made of a NIC may have the same properties as the NIC.
		t.set("Kind", "!*")
		t.set("Type", "ether")
	}
}

func addresses(t *text, i Interface) {
	if !i.HasAddresses() {
		t.setBool("LinkLocalAddressing", false)
		t.setBool("IPv6AcceptRA", false)
		return
	}

	switch {
	case i.DHCP4 && i.DHCP6:
		t.set("DHCP", "yes")
	case i.DHCP4:
		t.set("DHCP", "ipv4")
	case i.DHCP6:
		t.set("DHCP", "ipv6")
	}

	t.setBool("IPv6AcceptRA", i.SLAAC || i.DHCP6)
	t.setAll("Address", i.Addresses)
	t.setAll("DNS", i.DNS.Servers)
	t.setAll("Domains", i.DNS.Search)
	t.setAll("NTP", i.NTP)

	for _, r := range i.Routes {
		route(t, r)
	}

	dynamic(t, i)
}

func route(t *text, r Route) {
	t.section("Route")
	if r.To != "default" {
		t.set("Destination", r.To)
	}
	t.set("Gateway", r.Via)
	t.setInt("Metric", r.Metric)
	if r.OnLink {
		t.setBool("GatewayOnLink", true)
	}
}

// dynamic writes which settings of servers and routers are used. The host name
// never is: a kubelet's must not change (agent/hostname).
func dynamic(t *text, i Interface) {
	if i.DHCP4 {
		t.section("DHCPv4")
		t.setBool("UseHostname", false)
		t.setBool("UseMTU", true) // MTUBytes= comes first.
		if i.ClientID == ClientMAC {
			t.set("ClientIdentifier", "mac")
		}
	}
	if i.DHCP6 {
		t.section("DHCPv6")
		t.setBool("UseHostname", false)
		t.set("WithoutRA", "solicit")
	}
	if i.SLAAC || i.DHCP6 {
		t.section("IPv6AcceptRA")
		t.setBool("UseAutonomousPrefix", i.SLAAC)
		t.set("DHCPv6Client", map[bool]string{true: "always", false: "no"}[i.DHCP6])
	}
}
