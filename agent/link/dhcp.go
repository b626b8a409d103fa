package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/vishvananda/netlink"

	"github.com/loam-os/loam/hint"
)

// Client describes the machine to DHCP servers.
type Client struct {
	// Class is the vendor class identifier (option 60; for DHCPv6 the user
	// class, option 15). Arch is the architecture of the firmware (option 93,
	// RFC 4578; option 61, RFC 5970).
	Class string
	Arch  uint16

	// UUID is the machine's, in the byte order of SMBIOS (option 97); nil for
	// none.
	UUID []byte

	// URL is the server of boot files. If it is empty, a DHCP answer must give
	// one.
	URL string
}

// requestTimeout is how long to wait for answers to one request. Answers of
// several servers are combined.
const requestTimeout = 4 * time.Second

// request4 makes one attempt to get an IPv4 network.
func (c Client) request4(ctx context.Context, l netlink.LinkAttrs) (Network, error) {
	client, err := nclient4.New(l.Name, nclient4.WithTimeout(requestTimeout), nclient4.WithRetry(1))
	if err != nil {
		return Network{}, err
	}
	defer client.Close()

	discover, err := dhcpv4.NewDiscovery(client.InterfaceAddr(), c.options()...)
	if err != nil {
		return Network{}, fmt.Errorf("DHCP: %w", err)
	}

	var offers []*dhcpv4.DHCPv4
	_, err = client.SendAndRead(ctx, client.RemoteAddr(), discover, func(p *dhcpv4.DHCPv4) bool {
		if p.MessageType() == dhcpv4.MessageTypeOffer {
			offers = append(offers, p)
		}
		_, _, problem := c.choose(offers)
		return problem == nil
	})
	if err != nil && !errors.Is(err, nclient4.ErrNoResponse) {
		return Network{}, fmt.Errorf("DHCP: %w", err)
	}

	offer, url, err := c.choose(offers)
	if err != nil {
		return Network{}, fmt.Errorf("DHCP: %w", err)
	}

	lease, err := client.RequestFromOffer(ctx, offer, c.options()...)
	if err != nil {
		return Network{}, fmt.Errorf("DHCP: %w", err)
	}

	return network(l.Name, lease.ACK, url)
}

func (c Client) options() []dhcpv4.Modifier {
	options := []dhcpv4.Modifier{
		dhcpv4.WithBroadcast(true),
		dhcpv4.WithOption(dhcpv4.OptMaxMessageSize(nclient4.MaxMessageSize)),
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier(c.Class)),
		dhcpv4.WithOption(dhcpv4.OptClientArch(iana.Arch(c.Arch))),
		dhcpv4.WithRequestedOptions(dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter,
			dhcpv4.OptionClasslessStaticRoute, dhcpv4.OptionInterfaceMTU,
			dhcpv4.OptionDomainNameServer, dhcpv4.OptionTFTPServerName, dhcpv4.OptionBootfileName),
	}

	if c.UUID != nil {
		const machine = 0 // the type of identifier (RFC 4578, section 2.3)
		options = append(options,
			dhcpv4.WithGeneric(dhcpv4.OptionClientMachineIdentifier,
				append([]byte{machine}, c.UUID...)))
	}
	return options
}

// choose takes the address from one offer and the URL from any: an offer of
// ProxyDHCP has no address.
func (c Client) choose(offers []*dhcpv4.DHCPv4) (offer *dhcpv4.DHCPv4, url string, err error) {
	for _, o := range offers {
		if offer == nil && !o.YourIPAddr.IsUnspecified() && o.YourIPAddr != nil {
			offer = o
		}
		if url == "" {
			url = bootURL(o.BootFileNameOption(), o.BootFileName)
		}
	}

	switch {
	case len(offers) == 0:
		return nil, "", errors.New("no answer")
	case offer == nil:
		return nil, "", errors.New("no server offers an address")
	case url == "" && c.URL == "":
		return nil, "", hint.With(
			fmt.Errorf("address %s, but no server for the system", offer.YourIPAddr),
			"`loamctl serve` answers beside the network's own DHCP server, or that "+
				"server gives http://ADDRESS as boot file; or the kernel has "+
				"loam.server=http://ADDRESS",
		)
	}

	return offer, url, nil
}

// bootURL returns the first boot file name that is a URL of HTTP, from DHCPv4
// option 67 or the older field. Firmware may load other files from other
// servers.
func bootURL(names ...string) string {
	for _, name := range names {
		name = strings.TrimRight(name, "\x00")
		if strings.HasPrefix(name, "http://") {
			return strings.TrimRight(name, "/")
		}
	}
	return ""
}

// network returns the network that an acknowledgement describes.
func network(name string, ack *dhcpv4.DHCPv4, url string) (Network, error) {
	mask := ack.SubnetMask()
	if mask == nil {
		mask = ack.YourIPAddr.DefaultMask()
	}

	if ack.YourIPAddr.To4() == nil || mask == nil {
		return Network{}, fmt.Errorf("DHCP: address %v with mask %v", ack.YourIPAddr, mask)
	}

	address := net.IPNet{IP: ack.YourIPAddr, Mask: mask}
	n := Network{
		Interface: name,
		Address:   address,
		Routes:    withRouters(address, routes(ack)),
		MTU:       mtu(ack),
		DNS:       ack.DNS(),
		URL:       url,
	}
	return n, nil
}

// routes returns the classless static routes, or without any a route to everything
// by the router: with them the router does not count (RFC 3442).
func routes(ack *dhcpv4.DHCPv4) []Route {
	var all []Route
	for _, r := range ack.ClasslessStaticRoute() {
		to := net.IPNet{IP: r.Dest.IP.Mask(r.Dest.Mask), Mask: r.Dest.Mask}
		route := Route{To: to, Via: r.Router}
		if r.Router.IsUnspecified() {
			route.Via = nil // The network is on the link.
		}
		all = append(all, route)
	}
	if routers := ack.Router(); len(all) == 0 && len(routers) > 0 {
		everything := net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}
		all = []Route{{To: everything, Via: routers[0]}}
	}

	// A router may be in a network on the link.
	slices.SortStableFunc(all, func(a, b Route) int {
		return cmp.Compare(len(a.Via), len(b.Via))
	})
	return all
}

// withRouters adds a route on the link to each router that no network on the link has,
// as of an address alone (/32).
func withRouters(address net.IPNet, all []Route) []Route {
	var ways []Route
	for _, r := range all {
		isOnLink := func(other Route) bool { return other.Via == nil && other.To.Contains(r.Via) }
		if r.Via == nil || address.Contains(r.Via) || slices.ContainsFunc(all, isOnLink) ||
			slices.ContainsFunc(ways, isOnLink) {
			continue
		}
		ways = append(ways, Route{To: net.IPNet{IP: r.Via.To4(), Mask: net.CIDRMask(32, 32)}})
	}
	return append(ways, all...)
}

// mtu returns 0 if the server does not say. A lower one than IPv6 needs (RFC 8200,
// section 5) would take IPv6 from the interface: networkd raises it, too.
func mtu(ack *dhcpv4.DHCPv4) int {
	const least = 1280
	value, err := dhcpv4.GetUint16(dhcpv4.OptionInterfaceMTU, ack.Options)
	if err != nil {
		return 0
	}
	return max(least, int(value))
}
