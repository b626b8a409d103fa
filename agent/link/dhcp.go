package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/vishvananda/netlink"
)

// Client is who asks for a network.
type Client struct {
	// Class is the vendor class identifier (option 60; by DHCPv6 the user
	// class, option 15), Arch the architecture of the firmware (option 93, RFC
	// 4578; option 61, RFC 5970).
	Class string
	Arch  uint16

	// UUID is the machine's, as SMBIOS has its bytes (option 97); nil for none.
	UUID []byte

	// URL is where a server of boot files is. Without it an address alone is
	// not enough.
	URL string
}

// wait is how long answers to one question are waited for: those of several
// servers are put together.
const wait = 4 * time.Second

// ask4 asks once for a network of IPv4.
func (c Client) ask4(ctx context.Context, l netlink.LinkAttrs) (Network, error) {
	client, err := nclient4.New(l.Name, nclient4.WithTimeout(wait), nclient4.WithRetry(1))
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
			dhcpv4.OptionDomainNameServer, dhcpv4.OptionTFTPServerName, dhcpv4.OptionBootfileName),
	}

	if c.UUID != nil {
		const machine = 0 // its type (RFC 4578, section 2.3)
		options = append(options,
			dhcpv4.WithGeneric(dhcpv4.OptionClientMachineIdentifier,
				append([]byte{machine}, c.UUID...)))
	}
	return options
}

// choose takes the address from one offer, and the URL from any: one of
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
		return nil, "", errors.New("nobody offers an address")
	case url == "" && c.URL == "":
		return nil, "", fmt.Errorf("address %s, and nobody says where the system is\n"+
			"hint: `loamctl serve` answers beside the network's own DHCP server, "+
			"or that gives http://ADDRESS as boot file; "+
			"or the kernel has loam.server=http://ADDRESS", offer.YourIPAddr)
	}

	return offer, url, nil
}

// bootURL is the boot file name (of DHCPv4 option 67, or the field that is
// older), if it is a URL of HTTP: what firmware loads from others is no server.
func bootURL(names ...string) string {
	for _, name := range names {
		name = strings.TrimRight(name, "\x00")
		if strings.HasPrefix(name, "http://") {
			return strings.TrimRight(name, "/")
		}
	}
	return ""
}

// network is what an acknowledgement says.
func network(name string, ack *dhcpv4.DHCPv4, url string) (Network, error) {
	mask := ack.SubnetMask()
	if mask == nil {
		mask = ack.YourIPAddr.DefaultMask()
	}

	if ack.YourIPAddr.To4() == nil || mask == nil {
		return Network{}, fmt.Errorf("DHCP: address %v with mask %v", ack.YourIPAddr, mask)
	}

	n := Network{
		Interface: name,
		Address:   net.IPNet{IP: ack.YourIPAddr, Mask: mask},
		DNS:       ack.DNS(),
		URL:       url,
	}

	if routers := ack.Router(); len(routers) > 0 {
		n.Router = routers[0]
	}

	return n, nil
}
