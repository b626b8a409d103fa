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
	// Names that udev and the kernel give hardware. Characters that networkd
	// would read as a pattern or a list are not allowed.
	kernelName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,14}$`)
	driverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	busPath    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9:.,_@-]{0,127}$`)
	bondModes  = []string{
		"active-backup", "802.3ad", "balance-rr", "balance-xor", "broadcast",
		"balance-tlb", "balance-alb",
	}
)

const maxVLAN = 4094

func (c *networkCheck) nic(i int, n *network.NIC) {
	if n == nil {
		return
	}

	if *n == (network.NIC{}) {
		c.Add(at(i, ".nic"), "has no field set",
			"write its mac, path, name or driver, or any: true for every wired one")
		return
	}

	if n.Any && *n != (network.NIC{Any: true}) {
		c.Add(at(i, ".nic.any"), "is true together with other fields", "keep one of them")
	}

	c.mac(at(i, ".nic.mac"), n.MAC)
	for _, f := range []struct {
		field, value, example string
		shape                 *regexp.Regexp
	}{
		{
			"path",
			n.Path,
			"pci-0000:03:00.0, as `udevadm info /sys/class/net/*` says ID_PATH",
			busPath,
		},
		{"name", n.Name, "enp3s0", kernelName},
		{"driver", n.Driver, "igb", driverName},
	} {
		if f.value != "" && !f.shape.MatchString(f.value) {
			c.Add(at(i, ".nic."+f.field),
				document.Quote(f.value)+" is not the "+f.field+
					" of a NIC", "write one such as "+f.example)
		}
	}

	if n.Name == "lo" {
		c.Add(at(i, ".nic.name"), `"lo" is the node itself, not a NIC`, "write one such as enp3s0")
	}
	if made, ok := c.place[n.Name]; ok && c.interfaces[made].NIC == nil {
		c.Add(at(i, ".nic.name"), document.Quote(n.Name)+" is made by "+at(made, ""),
			"name another NIC, or give what is made another name")
	}

	const hint = "identify each NIC by what no other has"
	same := *n
	if n.MAC != "" { // However it is written, and whatever the other fields say.
		same = network.NIC{MAC: canonicalMAC(n.MAC)}
	} else if n.Name != "" {
		same = network.NIC{Name: n.Name}
	} else if n.Path != "" {
		same = network.NIC{Path: n.Path}
	}

	c.once(at(i, ".nic"), fmt.Sprintf("nic %+v", same), "chooses the same NIC", hint)
}

// mac checks that text is the address of one station in six bytes, or empty.
func (c *networkCheck) mac(path, text string) {
	if text == "" {
		return
	}
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 || strings.Contains(text, ".") || mac[0]&1 != 0 ||
		canonicalMAC(text) == "00:00:00:00:00:00" {
		c.Add(path, document.Quote(text)+" is not the MAC address of a NIC",
			"write six bytes such as 52:54:00:12:34:56, in quotes; the first is even")
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
		c.Add(at(i, ".bond.mode"), document.Quote(b.Mode)+" is not a mode of bonds",
			"write one of "+strings.Join(bondModes, ", "))
	}

	if len(b.Interfaces) == 0 {
		c.Add(at(i, ".bond.interfaces"), "is empty",
			"name the interfaces of kind nic that it is made of")
	}

	switch {
	case b.Primary == "":
	case b.Mode != "active-backup":
		c.Add(at(i, ".bond.primary"), "has no effect in mode "+document.Quote(b.Mode),
			"leave it out, or write mode: active-backup")
	case !slices.Contains(b.Interfaces, b.Primary):
		c.Add(at(i, ".bond.primary"), document.Quote(b.Primary)+" is not among its interfaces",
			"name one of "+strings.Join(b.Interfaces, ", "))
	case c.isDriver(b.Primary):
		c.Add(at(i, ".bond.primary"), document.Quote(b.Primary)+" may match several NICs",
			"choose the primary by mac, path or name")
	}
}

// isDriver reports whether the interface with that name may be more than one
// NIC.
func (c *networkCheck) isDriver(name string) bool {
	i, ok := c.place[name]
	return ok && c.interfaces[i].NIC != nil && !c.interfaces[i].NIC.One()
}

// ports checks the interfaces in a bond or a bridge. Each can be in only one,
// which receives all its packets.
func (c *networkCheck) ports(i int, one network.Interface) {
	kind := one.Kinds()[0]
	if one.Bridge != nil {
		c.mac(at(i, ".bridge.mac"), one.Bridge.MAC)
		if len(one.Bridge.Interfaces) == 0 {
			c.Add(at(i, ".bridge.interfaces"), "is empty",
				"name the interfaces that the bridge connects")
		}
	}

	for n, name := range one.Ports() {
		path := at(i, fmt.Sprintf(".%s.interfaces[%d]", kind, n))
		place, ok := c.place[name]
		switch {
		case !ok:
			c.unknown(path, name)
		case one.Bond != nil && c.interfaces[place].NIC == nil:
			c.Add(
				path,
				document.Quote(name)+" is not a NIC",
				"make a bond of interfaces of kind nic",
			)
		case c.interfaces[place].Bridge != nil:
			c.Add(path, document.Quote(name)+" is a bridge itself",
				"name what is to be in both in one of them")
		case c.uses[name] != "":
			c.Add(path, document.Quote(name)+" is in "+c.uses[name]+" already",
				"name each interface in one bond or bridge, once")
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
		c.Add(path, document.Quote(v.Interface)+" is a VLAN itself",
			"name the nic, bond or bridge that both are on")
	case c.isDriver(v.Interface):
		c.Add(path, document.Quote(v.Interface)+" may match several NICs",
			"choose it by mac, path or name")
	case c.uses[v.Interface] != "":
		c.Add(path, document.Quote(v.Interface)+" is in "+c.uses[v.Interface],
			"put the VLAN on that")
	default:
		c.once(at(i, ".vlan"), fmt.Sprintf("vlan %d of %s", v.ID, v.Interface), "is the same VLAN",
			"keep one of them")
	}
}
