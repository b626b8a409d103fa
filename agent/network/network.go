package network

// Config is the network of a node. The zero Config keeps the image's: DHCP on
// every wired interface. Otherwise an interface that matches no Interface is
// left alone.
type Config struct {
	Interfaces []Interface `json:"interfaces"`
}

// Interface is a network interface with addresses, or a part of another.
// Exactly one of NIC, Bond, VLAN and Bridge is set.
type Interface struct {
	// Name identifies the interface in the configuration. What is made of others
	// gets it as its name in the kernel; hardware keeps its own.
	Name   string  `json:"name"`
	NIC    *NIC    `json:"nic"`
	Bond   *Bond   `json:"bond"`
	VLAN   *VLAN   `json:"vlan"`
	Bridge *Bridge `json:"bridge"`

	// MTU is in bytes; 0 takes the one of a DHCP server or router, or else keeps the
	// kernel's.
	MTU int `json:"mtu"`

	// DHCP4 gets an address from a server for IPv4.
	DHCP4 bool `json:"dhcp4"`
	// DHCP6 gets addresses from a server for IPv6. The default route comes from a
	// router all the same.
	DHCP6 bool `json:"dhcp6"`
	// SLAAC makes addresses of the announcements of routers (RFC 4862).
	SLAAC bool `json:"slaac"`

	// ClientID is how a DHCP server for IPv4 knows the node again: machine, by its
	// machine ID (RFC 4361), which is the default, or mac, by the address of the
	// interface, as some servers need for reservations.
	ClientID string `json:"clientID"`

	// Addresses include the length of the prefix: 192.0.2.10/24.
	Addresses []string `json:"addresses"`
	Routes    []Route  `json:"routes"`
	DNS       DNS      `json:"dns"`

	// NTP are names or addresses of time servers.
	NTP []string `json:"ntp"`
}

// Values of [Interface.ClientID].
const (
	ClientMachine = "machine"
	ClientMAC     = "mac"
)

// NIC chooses hardware, which must match all fields that are set. If several
// Interfaces match, an Interface that identifies a single NIC takes precedence
// over an Interface with a driver, and the latter over Any.
type NIC struct {
	// MAC is the permanent address, which no bond changes.
	MAC string `json:"mac"`
	// Path is udev's ID_PATH, such as pci-0000:03:00.0.
	Path string `json:"path"`
	// Name is the kernel's name after udev's rules: enp3s0.
	Name string `json:"name"`
	// Driver is the name of the kernel's driver.
	Driver string `json:"driver"`
	// Any matches every wired interface.
	Any bool `json:"any"`
}

// One reports whether n can match only a single NIC.
func (n NIC) One() bool { return n.MAC != "" || n.Path != "" || n.Name != "" }

// Bond combines several interfaces into one.
type Bond struct {
	// Mode is the kernel's name of the mode (Documentation/networking/bonding.rst).
	Mode string `json:"mode"`
	// Interfaces are the names of those that it combines.
	Interfaces []string `json:"interfaces"`

	// Primary is the interface used while it works, in mode active-backup.
	Primary string `json:"primary"`

	// MAC is optional. systemd derives one from machine ID and name if it is
	// empty.
	MAC string `json:"mac"`
}

// VLAN is a tagged network (IEEE 802.1Q) on another interface.
type VLAN struct {
	// ID is the number of the VLAN, from 1 to 4094.
	ID int `json:"id"`
	// Interface is the name of the interface that carries it.
	Interface string `json:"interface"`
}

// Bridge is a switch of any number of interfaces.
type Bridge struct {
	// Interfaces are the names of those that it connects.
	Interfaces []string `json:"interfaces"`
	// STP enables the spanning tree protocol.
	STP bool `json:"stp"`
	// MAC is optional, as for a bond.
	MAC string `json:"mac"`
}

// Route is a route.
type Route struct {
	// To is a network; "" or "default" means all addresses in the family of Via.
	To string `json:"to"`

	// Via is the gateway, or "" for a destination on the link itself.
	Via string `json:"via"`

	// Metric orders routes, the lowest first; 0 keeps the kernel's default.
	Metric int `json:"metric"`

	// OnLink means that Via is on the link although no prefix of the interface
	// includes it.
	OnLink bool `json:"onLink"`
}

// DNS configures the name servers that are reached through an interface.
type DNS struct {
	// Servers are the addresses of the name servers.
	Servers []string `json:"servers"`
	// Search are the domains in which short names are looked up.
	Search []string `json:"search"`
}

// IsZero reports whether c keeps the network of the image.
func (c Config) IsZero() bool { return len(c.Interfaces) == 0 }

// HasAddresses reports whether i has any besides its link-local addresses.
func (i Interface) HasAddresses() bool {
	return i.DHCP4 || i.DHCP6 || i.SLAAC || len(i.Addresses) > 0
}

// Ports returns the interfaces that i, a bond or bridge, is made of.
func (i Interface) Ports() []string {
	switch {
	case i.Bond != nil:
		return i.Bond.Interfaces
	case i.Bridge != nil:
		return i.Bridge.Interfaces
	}
	return nil
}

// Kinds returns which of Bond, Bridge, NIC and VLAN are set in i.
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
