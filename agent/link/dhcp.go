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
)

// Client is who asks for a network.
type Client struct {
	// Class is the vendor class identifier (option 60), Arch the architecture of the firmware (option 93, RFC 4578).
	Class string
	Arch  uint16
	// UUID is the machine's, as SMBIOS has its bytes (option 97); nil for none.
	UUID []byte
	// WantURL says that an address alone is not enough.
	WantURL bool
}

// wait is how long answers to one question are waited for: those of several servers are put together.
const wait = 4 * time.Second

// ask asks once for a network.
func (c Client) ask(ctx context.Context, name string) (Network, error) {
	client, err := nclient4.New(name, nclient4.WithTimeout(wait), nclient4.WithRetry(1))
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
	return network(name, lease.ACK, url)
}

func (c Client) options() []dhcpv4.Modifier {
	options := []dhcpv4.Modifier{
		dhcpv4.WithBroadcast(true),
		dhcpv4.WithOption(dhcpv4.OptMaxMessageSize(nclient4.MaxMessageSize)),
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier(c.Class)),
		dhcpv4.WithOption(dhcpv4.OptClientArch(iana.Arch(c.Arch))),
		dhcpv4.WithRequestedOptions(dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer,
			dhcpv4.OptionTFTPServerName, dhcpv4.OptionBootfileName),
	}
	if c.UUID != nil {
		const machine = 0 // its type (RFC 4578, section 2.3)
		options = append(options, dhcpv4.WithGeneric(dhcpv4.OptionClientMachineIdentifier, append([]byte{machine}, c.UUID...)))
	}
	return options
}

// choose takes the address from one offer, and the URL from any: one of ProxyDHCP has no address.
func (c Client) choose(offers []*dhcpv4.DHCPv4) (offer *dhcpv4.DHCPv4, url string, err error) {
	for _, o := range offers {
		if offer == nil && !o.YourIPAddr.IsUnspecified() && o.YourIPAddr != nil {
			offer = o
		}
		if url == "" {
			url = bootURL(o)
		}
	}
	switch {
	case len(offers) == 0:
		return nil, "", errors.New("no answer")
	case offer == nil:
		return nil, "", errors.New("nobody offers an address")
	case url == "" && c.WantURL:
		return nil, "", fmt.Errorf("address %s, and nobody says where the system is\nhint: `loamctl serve` answers beside the network's own DHCP server, or that gives http://ADDRESS as boot file; or the kernel has loam.server=http://ADDRESS", offer.YourIPAddr)
	}
	return offer, url, nil
}

// bootURL is the boot file name (option 67, or the field that is older), if it is a URL of HTTP: what firmware loads from others is no server.
func bootURL(p *dhcpv4.DHCPv4) string {
	for _, name := range []string{p.BootFileNameOption(), p.BootFileName} {
		if name = strings.TrimRight(name, "\x00"); strings.HasPrefix(name, "http://") {
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
	n := Network{Interface: name, Address: net.IPNet{IP: ack.YourIPAddr, Mask: mask}, DNS: ack.DNS(), URL: url}
	if routers := ack.Router(); len(routers) > 0 {
		n.Router = routers[0]
	}
	return n, nil
}
