// Package network is a node's network as machine.yaml describes it, and as the
// files of systemd-networkd say it. It is pure: values in, text out; what holds
// of a Config before it is rendered is checked by agent/machine.
package network

// Config is the network of a node. The zero Config leaves it to the image: DHCP
// on every wired interface. Otherwise an interface that no Interface means is
// left alone.
type Config struct {
	Interfaces []Interface `json:"interfaces"`
}

// Interface is one with addresses, or one that others are made of. Exactly one
// of NIC, Bond, VLAN and Bridge is set.
type Interface struct {
	// Name is what others in the Config call it, and the name that the kernel
	// has for one that is made; a NIC keeps its own.
	Name   string  `json:"name"`
	NIC    *NIC    `json:"nic"`
	Bond   *Bond   `json:"bond"`
	VLAN   *VLAN   `json:"vlan"`
	Bridge *Bridge `json:"bridge"`

	// MTU is in bytes; 0 leaves it to the kernel.
	MTU int `json:"mtu"`

	// DHCP4 and DHCP6 ask servers for addresses, SLAAC makes them of what
	// routers announce (RFC 4862). The default route of IPv6 is a router's word
	// in either case.
	DHCP4 bool `json:"dhcp4"`
	DHCP6 bool `json:"dhcp6"`
	SLAAC bool `json:"slaac"`

	// Addresses are with the length of the prefix: 192.0.2.10/24.
	Addresses []string `json:"addresses"`
	Routes    []Route  `json:"routes"`
	DNS       DNS      `json:"dns"`

	// NTP are names or addresses of time servers.
	NTP []string `json:"ntp"`
}

// NIC chooses hardware: all that is said has to be true of it. If more than one
// Interface means it, one that says which counts before one that says a driver,
// and that before any.
type NIC struct {
	// MAC is the permanent address, which no bond changes.
	MAC string `json:"mac"`
	// Path is udev's ID_PATH, such as pci-0000:03:00.0.
	Path string `json:"path"`
	// Name is the kernel's, after udev's rules: enp3s0.
	Name   string `json:"name"`
	Driver string `json:"driver"`
	// Any is every wired one.
	Any bool `json:"any"`
}

// One reports whether n can mean one NIC only.
func (n NIC) One() bool { return n.MAC != "" || n.Path != "" || n.Name != "" }

// Bond makes one interface of several.
type Bond struct {
	// Mode is the kernel's name of it (Documentation/networking/bonding.rst).
	Mode       string   `json:"mode"`
	Interfaces []string `json:"interfaces"`

	// Primary is the one used while it works, of mode active-backup.
	Primary string `json:"primary"`

	// MAC is "" for one that follows from machine ID and name, as systemd makes
	// it.
	MAC string `json:"mac"`
}

// VLAN is a tagged network (IEEE 802.1Q) on another interface.
type VLAN struct {
	ID        int    `json:"id"`
	Interface string `json:"interface"`
}

// Bridge is a switch of several interfaces, or of none yet.
type Bridge struct {
	Interfaces []string `json:"interfaces"`
	// STP is the spanning tree protocol.
	STP bool   `json:"stp"`
	MAC string `json:"mac"` // as that of a Bond
}

// Route is one; To "" or "default" is all addresses of the family of Via.
type Route struct {
	To string `json:"to"`

	// Via is the gateway, "" for what is on the link itself.
	Via string `json:"via"`

	// Metric is less for what goes first; 0 is the kernel's own.
	Metric int `json:"metric"`

	// OnLink says that Via is on the link although no address has it in its
	// prefix.
	OnLink bool `json:"onLink"`
}

// DNS is asked for names, by way of its interface.
type DNS struct {
	Servers []string `json:"servers"`
	// Search are domains in which short names are looked for.
	Search []string `json:"search"`
}

// IsZero reports whether c leaves the network to the image.
func (c Config) IsZero() bool { return len(c.Interfaces) == 0 }

// HasAddresses reports whether i gets any but the link's own.
func (i Interface) HasAddresses() bool {
	return i.DHCP4 || i.DHCP6 || i.SLAAC || len(i.Addresses) > 0
}

// Ports are the interfaces that i, a bond or bridge, is made of.
func (i Interface) Ports() []string {
	switch {
	case i.Bond != nil:
		return i.Bond.Interfaces
	case i.Bridge != nil:
		return i.Bridge.Interfaces
	}
	return nil
}

// Kinds are those of Bond, Bridge, NIC and VLAN that i has.
func (i Interface) Kinds() []string {
	var kinds []string
	for _, k := range []struct {
		name string
		has  bool
	}{
		{"nic", i.NIC != nil},
		{"bond", i.Bond != nil},
		{"vlan", i.VLAN != nil},
		{"bridge", i.Bridge != nil},
	} {
		if k.has {
			kinds = append(kinds, k.name)
		}
	}

	return kinds
}
