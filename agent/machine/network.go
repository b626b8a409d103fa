package machine

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/network"
)

var (
	// A name of ours: the kernel takes 15 bytes (IFNAMSIZ), networkd no number and not the names that sysctl has for itself.
	interfaceName = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,14}$`)
	// What udev and the kernel call hardware. Anything that networkd would take for a pattern or a list stays out.
	kernelName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,14}$`)
	driverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	busPath    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9:.,_@-]{0,127}$`)

	reservedNames = []string{"lo", "all", "default"}
	bondModes     = []string{"active-backup", "802.3ad", "balance-rr", "balance-xor", "broadcast", "balance-tlb", "balance-alb"}
)

const (
	// minMTU is what every IPv4 host takes (RFC 791), minMTU6 the least of a link of IPv6 (RFC 8200, section 5),
	// maxMTU what Linux has of any device, usualMTU that of Ethernet.
	minMTU, minMTU6, maxMTU, usualMTU = 576, 1280, 65535, 1500
	maxVLAN                           = 4094
)

// networkCheck is what is known of a Config while it is checked.
type networkCheck struct {
	*document.Report
	interfaces []network.Interface
	// place is where an interface is in the list, by its name.
	place map[string]int
	// uses says what takes all of an interface, and uses it itself for nothing else.
	uses map[string]string
	// given is what may be said once only, and where it was.
	given map[string]string
}

func at(i int, rest string) string { return fmt.Sprintf("network.interfaces[%d]", i) + rest }

func checkNetwork(report *document.Report, config network.Config) {
	c := networkCheck{Report: report, interfaces: config.Interfaces, place: map[string]int{}, uses: map[string]string{}, given: map[string]string{}}
	c.names()
	for i, one := range c.interfaces {
		if kinds := one.Kinds(); len(kinds) != 1 {
			c.Add(at(i, ""), "is of "+orNone(kinds), "write one of nic, bond, vlan and bridge")
			continue
		}
		c.nic(i, one.NIC)
		c.bond(i, one.Bond)
		c.ports(i, one)
	}
	for i, one := range c.interfaces {
		c.vlan(i, one.VLAN)
		c.mtu(i, one)
		c.addresses(i, one)
	}
	c.loops()
	if len(c.interfaces) > 0 && !slices.ContainsFunc(c.interfaces, network.Interface.HasAddresses) {
		c.Add("network.interfaces", "no interface has an address: nothing would reach the node",
			"write dhcp4, dhcp6 or slaac: true, or addresses, with the one that leads out")
	}
}

func orNone(kinds []string) string {
	if len(kinds) == 0 {
		return "no kind"
	}
	return strings.Join(kinds, " and ") + " at once"
}

// once reports what was given before.
func (c *networkCheck) once(path, key, what, hint string) bool {
	if before, twice := c.given[key]; twice {
		c.Add(path, what+", as at "+before, hint)
		return false
	}
	c.given[key] = path
	return true
}

func (c *networkCheck) names() {
	for i, one := range c.interfaces {
		switch before, twice := c.place[one.Name]; {
		case !interfaceName.MatchString(one.Name) || slices.Contains(reservedNames, one.Name):
			c.Add(at(i, ".name"), document.Quote(one.Name)+" is not a name for an interface",
				"write at most 15 lower-case letters, digits, dots, dashes and underscores, a letter first; lo, all and default are taken")
		case twice:
			c.Add(at(i, ".name"), document.Quote(one.Name)+" is also the name of "+at(before, ""), "give each interface a name of its own")
		default:
			c.place[one.Name] = i
		}
	}
}

func (c *networkCheck) nic(i int, n *network.NIC) {
	if n == nil {
		return
	}
	if *n == (network.NIC{}) {
		c.Add(at(i, ".nic"), "says nothing of the NIC", "write its mac, path, name or driver, or any: true for every wired one")
		return
	}
	if n.Any && *n != (network.NIC{Any: true}) {
		c.Add(at(i, ".nic.any"), "is true beside what says which", "keep one of them")
	}
	c.mac(at(i, ".nic.mac"), n.MAC)
	for _, f := range []struct {
		field, value, example string
		shape                 *regexp.Regexp
	}{{"path", n.Path, "pci-0000:03:00.0, as `udevadm info /sys/class/net/*` says ID_PATH", busPath}, {"name", n.Name, "enp3s0", kernelName}, {"driver", n.Driver, "igb", driverName}} {
		if f.value != "" && !f.shape.MatchString(f.value) {
			c.Add(at(i, ".nic."+f.field), document.Quote(f.value)+" is not the "+f.field+" of a NIC", "write one such as "+f.example)
		}
	}
	if made, ok := c.place[n.Name]; ok && c.interfaces[made].NIC == nil {
		c.Add(at(i, ".nic.name"), document.Quote(n.Name)+" is made by "+at(made, ""), "name another NIC, or give what is made another name")
	}
	const hint = "say of each NIC what is true of no other"
	same := *n
	if n.MAC != "" { // However it is written, and whatever else is said.
		same = network.NIC{MAC: canonicalMAC(n.MAC)}
	} else if n.Name != "" {
		same = network.NIC{Name: n.Name}
	} else if n.Path != "" {
		same = network.NIC{Path: n.Path}
	}
	c.once(at(i, ".nic"), fmt.Sprintf("nic %+v", same), "chooses the same NIC", hint)
}

// mac wants the address of one station in six bytes, or nothing.
func (c *networkCheck) mac(path, text string) {
	if text == "" {
		return
	}
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 || strings.Contains(text, ".") || mac[0]&1 != 0 || canonicalMAC(text) == "00:00:00:00:00:00" {
		c.Add(path, document.Quote(text)+" is not the MAC address of a NIC", "write six bytes such as 52:54:00:12:34:56, in quotes; the first is even")
	}
}

func canonicalMAC(text string) string {
	mac, err := net.ParseMAC(text)
	if err != nil {
		return text
	}
	return mac.String()
}

func (c *networkCheck) bond(i int, b *network.Bond) {
	if b == nil {
		return
	}
	c.mac(at(i, ".bond.mac"), b.MAC)
	if !slices.Contains(bondModes, b.Mode) {
		c.Add(at(i, ".bond.mode"), document.Quote(b.Mode)+" is not a mode of bonds", "write one of "+strings.Join(bondModes, ", "))
	}
	if len(b.Interfaces) == 0 {
		c.Add(at(i, ".bond.interfaces"), "is empty", "name the interfaces of kind nic that it is made of")
	}
	switch {
	case b.Primary == "":
	case b.Mode != "active-backup":
		c.Add(at(i, ".bond.primary"), "is of no use in mode "+document.Quote(b.Mode), "leave it out, or write mode: active-backup")
	case !slices.Contains(b.Interfaces, b.Primary):
		c.Add(at(i, ".bond.primary"), document.Quote(b.Primary)+" is not among its interfaces", "name one of "+strings.Join(b.Interfaces, ", "))
	case c.isDriver(b.Primary):
		c.Add(at(i, ".bond.primary"), document.Quote(b.Primary)+" may be several NICs", "choose the primary by mac, path or name")
	}
}

// isDriver reports whether the interface of that name may be more than one NIC.
func (c *networkCheck) isDriver(name string) bool {
	i, ok := c.place[name]
	return ok && c.interfaces[i].NIC != nil && !c.interfaces[i].NIC.One()
}

// ports are what a bond or a bridge is made of: each of one only, which has all that comes and goes.
func (c *networkCheck) ports(i int, one network.Interface) {
	kind := one.Kinds()[0]
	if one.Bridge != nil {
		c.mac(at(i, ".bridge.mac"), one.Bridge.MAC)
	}
	for n, name := range one.Ports() {
		path := at(i, fmt.Sprintf(".%s.interfaces[%d]", kind, n))
		place, ok := c.place[name]
		switch {
		case !ok:
			c.unknown(path, name)
		case one.Bond != nil && c.interfaces[place].NIC == nil:
			c.Add(path, document.Quote(name)+" is no NIC", "make a bond of interfaces of kind nic")
		case c.interfaces[place].Bridge != nil:
			c.Add(path, document.Quote(name)+" is a bridge itself", "name what is to be in both in one of them")
		case c.uses[name] != "":
			c.Add(path, document.Quote(name)+" is in "+c.uses[name]+" already", "name each interface in one bond or bridge, once")
		default:
			c.uses[name] = kind + " " + one.Name
		}
	}
}

func (c *networkCheck) unknown(path, name string) {
	var names []string
	for _, one := range c.interfaces {
		names = append(names, one.Name)
	}
	hint := "there are " + strings.Join(names, ", ")
	if near := document.Nearest(name, names); near != "" {
		hint = "did you mean " + near + "?"
	}
	c.Add(path, document.Quote(name)+" is not the name of an interface here", hint)
}

func (c *networkCheck) vlan(i int, v *network.VLAN) {
	if v == nil {
		return
	}
	if v.ID < 1 || v.ID > maxVLAN {
		c.Addf(at(i, ".vlan.id"), "write one of 1 to 4094", "%d is not the ID of a VLAN", v.ID)
	}
	place, ok := c.place[v.Interface]
	path := at(i, ".vlan.interface")
	switch {
	case !ok:
		c.unknown(path, v.Interface)
	case c.interfaces[place].VLAN != nil:
		c.Add(path, document.Quote(v.Interface)+" is a VLAN itself", "name the nic, bond or bridge that both are on")
	case c.isDriver(v.Interface):
		c.Add(path, document.Quote(v.Interface)+" may be several NICs", "choose it by mac, path or name")
	case c.uses[v.Interface] != "":
		c.Add(path, document.Quote(v.Interface)+" is in "+c.uses[v.Interface], "put the VLAN on that")
	default:
		c.once(at(i, ".vlan"), fmt.Sprintf("vlan %d of %s", v.ID, v.Interface), "is the same VLAN", "keep one of them")
	}
}

// loops finds a bridge that is in itself, by a VLAN on it: bonds are made of NICs, and no VLAN is on another.
func (c *networkCheck) loops() {
	for i, one := range c.interfaces {
		if one.Bridge == nil {
			continue
		}
		for n, name := range one.Bridge.Interfaces {
			place, ok := c.place[name]
			if !ok || c.interfaces[place].VLAN == nil || c.interfaces[place].VLAN.Interface != one.Name {
				continue
			}
			c.Add(at(i, fmt.Sprintf(".bridge.interfaces[%d]", n)), document.Quote(name)+" is a VLAN on this bridge: it would be in itself", "put the VLAN on a NIC or bond")
		}
	}
}

func (c *networkCheck) mtu(i int, one network.Interface) {
	least := minMTU
	if one.DHCP6 || one.SLAAC || slices.ContainsFunc(one.Addresses, func(a string) bool { return strings.Contains(a, ":") }) {
		least = minMTU6
	}
	path := at(i, ".mtu")
	switch {
	case one.MTU == 0:
	case one.MTU < least || one.MTU > maxMTU:
		c.Addf(path, "write the bytes that a packet may have, such as 1500 or 9000", "%d is not one of %d to %d", one.MTU, least, maxMTU)
	case strings.HasPrefix(c.uses[one.Name], "bond "):
		c.Add(path, "is that of "+c.uses[one.Name], "write it there")
	case one.VLAN != nil:
		place, ok := c.place[one.VLAN.Interface]
		if !ok {
			break
		}
		under := c.interfaces[place].MTU
		if under == 0 {
			under = usualMTU
		}
		if one.MTU > under {
			c.Addf(path, "write an mtu for that as well", "%d is more than the %d of %s, which it is on", one.MTU, under, one.VLAN.Interface)
		}
	}
}
