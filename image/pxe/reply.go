package pxe

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Ports. ProxyPort is where a machine asks again that has got its address.
const (
	DHCPPort   = 67
	ProxyPort  = 4011
	clientPort = 68
)

// Values of option 43 (PXE 2.1, section 2.2.3). 255 ends it.
var (
	// useFile is PXE_DISCOVERY_CONTROL (tag 6): the machine loads the boot file
	// of this packet, shows no menu and looks for no other server.
	useFile = []byte{6, 1, 8, 255}
	// useDisk is a PXE_BOOT_MENU (9) of one entry, which is of type 0, the
	// machine's own disk, and a PXE_MENU_PROMPT (10) that takes it after 0
	// seconds; no server is looked for.
	useDisk = []byte{6, 1, 3, 9, 7, 0, 0, 4, 'd', 'i', 's', 'k', 10, 5, 0, 'd', 'i', 's', 'k', 255}
)

// answers returns the type of the message that answers p on a port: an offer
// beside the DHCP server's, or, once the machine has its address, an ACK. ok is
// false if p gets no answer.
func answers(p *dhcpv4.DHCPv4, port int) (dhcpv4.MessageType, bool) {
	switch kind := p.MessageType(); {
	case port == DHCPPort && kind == dhcpv4.MessageTypeDiscover:
		return dhcpv4.MessageTypeOffer, true
	case port == ProxyPort &&
		(kind == dhcpv4.MessageTypeRequest || kind == dhcpv4.MessageTypeInform):
		return dhcpv4.MessageTypeAck, true
	}
	return dhcpv4.MessageTypeNone, false
}

// reply returns the packet that answers p with offer.
func reply(
	p *dhcpv4.DHCPv4, kind dhcpv4.MessageType, offer Offer, server netip.Addr,
) (*dhcpv4.DHCPv4, error) {
	ip := net.IP(server.AsSlice())
	out, err := dhcpv4.NewReplyFromRequest(p,
		dhcpv4.WithMessageType(kind),
		dhcpv4.WithServerIP(ip),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(ip)),
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier(offer.Class)),
		// RFC 4578, section 2.3: a server that knows it returns it.
		dhcpv4.WithOptionCopied(p, dhcpv4.OptionClientMachineIdentifier),
	)
	if err != nil {
		return nil, fmt.Errorf("answer to %s: %w", p.ClientHWAddr, err)
	}

	out.ClientIPAddr = p.ClientIPAddr
	if offer.File != "" {
		out.UpdateOption(dhcpv4.OptBootFileName(offer.File))
	}
	if len(offer.File) < len([128]byte{}) { // the field of BOOTP, which ends with a zero
		out.BootFileName = offer.File
	}

	switch {
	case offer.Class == pxeClass && offer.File == "":
		out.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, useDisk))
	case offer.Class == pxeClass:
		out.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, useFile))
		out.UpdateOption(dhcpv4.OptTFTPServerName(server.String()))
	}

	return out, nil
}

// destination is where the answer to p goes, which came from there: to the
// relay, back to who has an address, or to everybody (RFC 2131, section 4.1).
func destination(p *dhcpv4.DHCPv4, from net.Addr, port int) net.Addr {
	switch {
	case !p.GatewayIPAddr.IsUnspecified():
		return &net.UDPAddr{IP: p.GatewayIPAddr, Port: DHCPPort}
	case port == ProxyPort:
		return from
	case !p.ClientIPAddr.IsUnspecified():
		return &net.UDPAddr{IP: p.ClientIPAddr, Port: clientPort}
	}
	return &net.UDPAddr{IP: net.IPv4bcast, Port: clientPort}
}
