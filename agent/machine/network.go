package machine

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/network"
)

var (
	// A name that Loam can give an interface. The kernel takes 15 bytes
	// (IFNAMSIZ). networkd takes no number, and not the names that sysctl has
	// for itself.
	interfaceName = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,14}$`)
	reservedNames = []string{"lo", "all", "default"}
)

const (
	// minMTU is what every IPv4 host accepts (RFC 791), minMTU6 the least for
	// an IPv6 link (RFC 8200, section 5), maxMTU the most that Linux accepts
	// for any device, usualMTU the MTU of Ethernet.
	minMTU   = 576
	minMTU6  = 1280
	maxMTU   = 65535
	usualMTU = 1500
)

// networkCheck collects what is known about a Config while it is checked.
type networkCheck struct {
	*document.Report
	interfaces []network.Interface
	// place is the index of an interface in the list, by its name.
	place map[string]int
	// uses says which bond or bridge has an interface.
	uses map[string]string
	// given is where a value that must be unique was given.
	given map[string]string
}

func at(i int, rest string) string { return fmt.Sprintf("network.interfaces[%d]", i) + rest }

func checkNetwork(report *document.Report, config network.Config) {
	c := networkCheck{
		Report:     report,
		interfaces: config.Interfaces,
		place:      map[string]int{},
		uses:       map[string]string{},
		given:      map[string]string{},
	}

	c.names()
	for i, one := range c.interfaces {
		if kinds := one.Kinds(); len(kinds) != 1 {
			c.Add(at(i, ""), "has "+orNone(kinds), "write one of nic, bond, vlan and bridge")
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

// once reports a value that was given before.
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
				"write at most 15 lower-case letters, digits, dots, dashes and underscores, "+
					"a letter first; lo, all and default are taken")
		case twice:
			c.Add(at(i, ".name"), document.Quote(one.Name)+" is also the name of "+at(before, ""),
				"give each interface a name of its own")
		default:
			c.place[one.Name] = i
		}
	}
}

// loops finds bridges that contain themselves, through VLANs on them. There are
// no other loops: bonds are made of NICs, and no VLAN is on another.
func (c *networkCheck) loops() {
	for i, one := range c.interfaces {
		if one.Bridge == nil {
			continue
		}
		for n, name := range one.Bridge.Interfaces {
			place, ok := c.place[name]
			if !ok || c.interfaces[place].VLAN == nil ||
				!c.leads(name, one.Name, map[string]bool{}) {
				continue
			}
			c.Add(at(i, fmt.Sprintf(".bridge.interfaces[%d]", n)),
				document.Quote(name)+" leads back to this bridge: it would be in itself",
				"put the VLAN on a NIC or bond")
		}
	}
}

// leads reports whether the interface from contains the interface to, at any
// depth. seen has the interfaces that were visited.
func (c *networkCheck) leads(from, to string, seen map[string]bool) bool {
	place, ok := c.place[from]
	if !ok || seen[from] {
		return false
	}

	seen[from] = true
	made := c.interfaces[place].Ports()
	if vlan := c.interfaces[place].VLAN; vlan != nil {
		made = []string{vlan.Interface}
	}

	return slices.ContainsFunc(made, func(name string) bool {
		return name == to || c.leads(name, to, seen)
	})
}

func (c *networkCheck) mtu(i int, one network.Interface) {
	least := minMTU
	if one.DHCP6 || one.SLAAC || slices.ContainsFunc(one.Addresses, func(a string) bool {
		return strings.Contains(a, ":")
	}) {
		least = minMTU6
	}

	path := at(i, ".mtu")
	switch {
	case one.MTU == 0:
	case one.MTU < least || one.MTU > maxMTU:
		c.Addf(path, "write the bytes that a packet may have, such as 1500 or 9000",
			"%d is not one of %d to %d", one.MTU, least, maxMTU)
	case strings.HasPrefix(c.uses[one.Name], "bond "):
		c.Add(path, "belongs to "+c.uses[one.Name], "write it there")
	case one.VLAN != nil:
		c.fits(path, one.MTU, one.VLAN.Interface, "which it is on")
	case one.Bridge != nil: // The kernel drops what is too large for a port.
		for _, name := range one.Bridge.Interfaces {
			c.fits(path, one.MTU, name, "which is in it")
		}
	}
}

// fits reports an interface whose packets are smaller than mtu. A VLAN without
// an MTU has the MTU of the interface it is on.
func (c *networkCheck) fits(path string, mtu int, name, what string) {
	place, ok := c.place[name]
	if !ok {
		return
	}

	one := c.interfaces[place]
	if one.VLAN != nil && one.MTU == 0 {
		one = c.interfaces[c.place[one.VLAN.Interface]]
	}

	if most := cmp.Or(one.MTU, usualMTU); mtu > most {
		c.Addf(path, "write an mtu for that as well", "%d is more than the %d of %s, %s",
			mtu, most, name, what)
	}
}
