package pxe

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Proxy answers machines beside the DHCP server.
type Proxy struct {
	Offers Offers
	// Server is the address of this server.
	Server netip.Addr
	// Installed reports whether the machine boots from its own disk; see
	// [Machines].
	Installed func(mac string, uuids []string) bool
	// Admit returns the reason to refuse a machine, nil to boot it.
	Admit func(Request) error
	// Said records the answer to a machine, or why it got none.
	Said func(Request, Offer, error)
}

// Serve answers what comes to conn, which is at port 67 or 4011, until ctx
// ends.
func (s *Proxy) Serve(ctx context.Context, conn net.PacketConn, port int) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	p := make([]byte, 2048)
	for {
		n, from, err := conn.ReadFrom(p)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			continue // The cable was pulled, and may be plugged in again.
		}

		if out, to := s.answer(p[:n], from, port); out != nil {
			// The machine repeats its request if the answer is lost.
			_, _ = conn.WriteTo(out, to)
		}
	}
}

// answer is the packet that answers p, and where it goes; nil if none.
func (s *Proxy) answer(p []byte, from net.Addr, port int) ([]byte, net.Addr) {
	in, err := dhcpv4.FromBytes(p)
	if err != nil {
		return nil, nil
	}

	kind, ok := answers(in, port)
	r := ParseRequest(in)
	if !ok || r.Kind == "" {
		return nil, nil
	}

	offer, err := s.Offers.For(r, s.Installed(r.MAC, r.UUIDs))
	if err == nil && r.Kind != Init && !offer.Disk {
		// Init runs already, and may ask by another network device.
		err = s.Admit(r)
	}

	s.Said(r, offer, err)
	if err != nil {
		return nil, nil
	}

	out, err := reply(in, kind, offer, s.Server)
	if err != nil {
		s.Said(r, Offer{}, err)
		return nil, nil
	}

	return out.ToBytes(), destination(in, from, port)
}

// Listen opens the two ports of ProxyDHCP on the network of address only. With
// two networks, the offer would name an address that half of the machines do
// not reach.
func Listen(ctx context.Context, address netip.Addr) (dhcp, proxy net.PacketConn, err error) {
	device, err := interfaceOf(address)
	if err != nil {
		return nil, nil, err
	}

	dhcp, err = listenOn(ctx, device, netip.AddrPortFrom(netip.IPv4Unspecified(), DHCPPort))
	if err != nil {
		return nil, nil, err
	}

	proxy, err = listenOn(ctx, device, netip.AddrPortFrom(address, ProxyPort))
	if err != nil {
		return nil, nil, errors.Join(err, dhcp.Close())
	}

	return dhcp, proxy, nil
}
