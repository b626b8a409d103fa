package link

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/nclient6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/hint"
)

// request6 makes one attempt to get an IPv6 network. If the kernel has made an
// address from a router's advertisement, DHCPv6 is asked only for the rest (RFC
// 8415, section 6.1).
func (c Client) request6(ctx context.Context, l netlink.LinkAttrs) (Network, error) {
	if _, err := address(ctx, l, net.IP.IsLinkLocalUnicast); err != nil {
		return Network{}, fmt.Errorf("IPv6: no address of its own: %w", err)
	}

	client, err := nclient6.New(l.Name, nclient6.WithTimeout(requestTimeout), nclient6.WithRetry(1))
	if err != nil {
		return Network{}, fmt.Errorf("DHCPv6: %w", err)
	}
	defer client.Close()

	n := Network{Interface: l.Name}
	var reply *dhcpv6.Message
	n.Address, err = address(ctx, l, net.IP.IsGlobalUnicast)
	if err == nil {
		reply, err = c.inform(ctx, client, n)
	} else {
		reply, err = c.solicit(ctx, client)
	}

	switch alone := errors.Is(err, nclient6.ErrNoResponse); {
	case alone && n.Address.IP == nil:
		return Network{}, errors.New("IPv6: no router advertises a network, " +
			"and no DHCPv6 server answers")
	case alone && c.URL != "":
		return n, nil
	case err == nil:
		n, err = c.network6(n, reply)
	}

	if err != nil {
		return Network{}, fmt.Errorf("DHCPv6: %w", err)
	}

	return n, nil
}

// address waits for an address that the kernel has given an interface, after
// duplicate address detection.
func address(ctx context.Context, l netlink.LinkAttrs, fits func(net.IP) bool) (net.IPNet, error) {
	ctx, stop := context.WithTimeout(ctx, requestTimeout)
	updates := make(chan netlink.AddrUpdate)
	err := netlink.AddrSubscribeWithOptions(updates, ctx.Done(),
		netlink.AddrSubscribeOptions{ListExisting: true})
	if err != nil {
		stop()
		return net.IPNet{}, fmt.Errorf("listen to addresses: %w", err)
	}

	defer func() {
		stop()
		for range updates { // The subscription ends when it sends something, or when ctx ends.
		}
	}()

	const unusable = unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED | unix.IFA_F_DEPRECATED
	for {
		select {
		case u, ok := <-updates:
			if !ok {
				return net.IPNet{}, errors.New("listen to addresses: the kernel has ended it")
			}
			a := u.LinkAddress
			if u.NewAddr && u.LinkIndex == l.Index && u.Flags&unusable == 0 &&
				a.IP.To4() == nil && fits(a.IP) {
				return a, nil
			}
		case <-ctx.Done():
			return net.IPNet{}, ctx.Err()
		}
	}
}

// inform requests the options for an address that the interface has already.
// The request is the same as for an address, but without one.
func (c Client) inform(
	ctx context.Context, client *nclient6.Client, n Network,
) (*dhcpv6.Message, error) {
	question, err := dhcpv6.NewSolicit(client.InterfaceAddr(),
		c.options6(client.InterfaceAddr())...)
	if err != nil {
		return nil, err
	}
	question.MessageType = dhcpv6.MessageTypeInformationRequest
	question.Options.Del(dhcpv6.OptionIANA)
	return c.useful(ctx, client, question, dhcpv6.MessageTypeReply, n)
}

// solicit requests an address and the options.
func (c Client) solicit(ctx context.Context, client *nclient6.Client) (*dhcpv6.Message, error) {
	question, err := dhcpv6.NewSolicit(client.InterfaceAddr(),
		c.options6(client.InterfaceAddr())...)
	if err != nil {
		return nil, err
	}

	offer, err := c.useful(ctx, client, question, dhcpv6.MessageTypeAdvertise, Network{})
	if err != nil {
		return nil, err
	}

	return client.Request(ctx, offer, c.options6(client.InterfaceAddr())...)
}

// useful returns the first answer of a type that completes the network n.
// Another server may have answered before with no address (RFC 8415, section
// 18.2.9), or with nothing that leads to the system.
func (c Client) useful(
	ctx context.Context,
	client *nclient6.Client,
	question *dhcpv6.Message,
	of dhcpv6.MessageType,
	n Network,
) (*dhcpv6.Message, error) {
	var problem error
	answer, err := client.SendAndRead(
		ctx,
		client.RemoteAddr(),
		question,
		func(p *dhcpv6.Message) bool {
			if p.MessageType != of {
				return false
			}
			_, problem = c.network6(n, p)
			return problem == nil
		},
	)
	if errors.Is(err, nclient6.ErrNoResponse) && problem != nil {
		err = problem
	}

	return answer, err
}

// options6 returns options that have the same client identifier at each start.
func (c Client) options6(mac net.HardwareAddr) []dhcpv6.Modifier {
	return []dhcpv6.Modifier{
		dhcpv6.WithClientID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: mac}),
		dhcpv6.WithUserClass([]byte(c.Class)),
		dhcpv6.WithArchType(iana.Arch(c.Arch)),
		dhcpv6.WithRequestedOptions(dhcpv6.OptionDNSRecursiveNameServer, dhcpv6.OptionBootfileURL),
	}
}

// network6 adds the content of a reply to a network.
func (c Client) network6(n Network, reply *dhcpv6.Message) (Network, error) {
	if n.Address.IP == nil {
		offered := reply.Options.OneIANA()
		if offered == nil || offered.Options.OneAddress() == nil {
			return Network{}, errors.New("no server offers an address")
		}
		n.Address = net.IPNet{
			IP:   offered.Options.OneAddress().IPv6Addr,
			Mask: net.CIDRMask(128, 128),
		}
	}

	n.DNS = reply.Options.DNS()
	n.URL = bootURL(reply.Options.BootFileURL())
	if n.URL == "" && c.URL == "" {
		return Network{}, hint.With(
			fmt.Errorf("address %s, but no server for the system", n.Address.IP),
			"have the DHCPv6 server give http://[ADDRESS] as boot file URL to user class "+
				"%s; or the kernel has loam.server=http://[ADDRESS]", c.Class,
		)
	}

	return n, nil
}
