package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/hint"
)

// Network is what a DHCP server, and others that answered, gave an interface.
type Network struct {
	Interface string
	Address   net.IPNet

	// Routes are none for IPv6, where the kernel knows the routers.
	Routes []Route

	// MTU is in bytes, 0 if the server does not say; before is what the interface
	// had.
	MTU, before int

	DNS []net.IP

	// URL is the server of boot files, "" if no answer had one.
	URL string
}

// Route leads to a network by a router, or without one on the link itself.
type Route struct {
	To  net.IPNet
	Via net.IP
}

// Connect brings all interfaces up, including those that appear later, and
// returns the first network that has an address and, if the client needs one, a
// URL, and that the kernel takes. It retries until ctx ends, and calls say with the
// reason.
func Connect(ctx context.Context, c Client, say func(format string, args ...any)) (Network, error) {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()

	defer stop()
	found := make(chan answer)

	updates, err := interfaces(ctx, &wg, subscribe, say)
	if err != nil {
		return Network{}, err
	}

	asked := map[int]bool{}
	for {
		select {
		case u := <-updates:
			if a := u.Link.Attrs(); !asked[a.Index] && usable(*a) {
				asked[a.Index] = true
				wg.Go(func() { c.join(ctx, u.Link, found, say) })
			}
		case a := <-found:
			err := a.apply()
			a.applied <- err
			if err == nil {
				return a.Network, nil
			}
		case <-ctx.Done():
			return Network{}, fmt.Errorf("%d network interfaces, and no answer: %w",
				len(asked), ctx.Err())
		}
	}
}

// answer is a network that was found. The result of applying it goes to applied: the
// kernel refuses a route that makes no sense to it, and another server may answer.
type answer struct {
	Network
	applied chan error
}

// hand has a network applied, and returns why it cannot be. It returns nil if ctx ends.
func hand(ctx context.Context, n Network, found chan<- answer) error {
	a := answer{n, make(chan error, 1)}
	select {
	case found <- a:
	case <-ctx.Done():
		return nil
	}

	select {
	case err := <-a.applied:
		return err
	case <-ctx.Done():
		return nil
	}
}

// usable reports whether an interface is Ethernet hardware of this machine.
func usable(a netlink.LinkAttrs) bool {
	return a.Flags&net.FlagLoopback == 0 && a.EncapType == "ether" && len(a.HardwareAddr) == 6
}

// join brings an interface up and requests a network by each protocol that can
// lead to the server, until ctx ends.
func (c Client) join(
	ctx context.Context, l netlink.Link, found chan<- answer, say func(format string, args ...any),
) {
	if err := netlink.LinkSetUp(l); err != nil {
		say("network interface %s: %v", l.Attrs().Name, err)
		return
	}
	var wg sync.WaitGroup
	for _, ask := range c.protocols() {
		wg.Go(func() { c.retry(ctx, ask, l, found, say) })
	}
	wg.Wait()
}

// question makes one attempt to get the network of an interface.
type question func(ctx context.Context, l netlink.LinkAttrs) (Network, error)

// server returns the host of URL, "" if that is not known, and its address,
// invalid if it is a name.
func (c Client) server() (host string, address netip.Addr) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return "", netip.Addr{} // netboot.CheckURL refuses it.
	}
	address, _ = netip.ParseAddr(u.Hostname())
	return u.Hostname(), address
}

func (c Client) protocols() []question {
	switch _, server := c.server(); {
	case server.Is4():
		return []question{c.request4}
	case server.Is6():
		return []question{c.request6}
	}
	return []question{c.request4, c.request6}
}

// leads returns an error if a network cannot lead to the server.
func (c Client) leads(n Network) error {
	switch host, address := c.server(); {
	case host == "":
	case !address.IsValid() && len(n.DNS) == 0:
		return fmt.Errorf("address %s, and no DNS server that knows %s", &n.Address, host)
	case address.Is4() && !n.reaches(address.AsSlice()):
		return fmt.Errorf("address %s, and no router to %s", &n.Address, host)
	}
	return nil
}

func (n Network) reaches(address net.IP) bool {
	return n.Address.Contains(address) ||
		slices.ContainsFunc(n.Routes, func(r Route) bool { return r.To.Contains(address) })
}

// retry repeats a question until there is an answer, or ctx ends.
func (c Client) retry(
	ctx context.Context,
	ask question,
	l netlink.Link,
	found chan<- answer,
	say func(format string, args ...any),
) {
	name := l.Attrs().Name
	for reported := ""; ; {
		n, err := ask(ctx, *l.Attrs())
		if err == nil {
			err = c.leads(n)
		}

		if err == nil {
			err = hand(ctx, n, found)
		}
		if err == nil {
			return
		}

		if text := hint.Text(err); text != reported && ctx.Err() == nil {
			reported = text
			say("network interface %s: %s", name, text)
		}

		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// pause is how long an interface waits before it retries.
const pause = time.Second

// apply gives the interface its address and its routes.
func (n *Network) apply() error {
	l, err := netlink.LinkByName(n.Interface)
	if err == nil {
		n.before = l.Attrs().MTU
		err = n.applyTo(l)
	}
	if err != nil {
		return fmt.Errorf("network interface %s: address %s: %w", n.Interface, &n.Address, err)
	}
	return nil
}

func (n *Network) applyTo(l netlink.Link) error {
	if n.MTU != 0 {
		// Best effort: the driver may have a lower limit.
		_ = netlink.LinkSetMTU(l, n.MTU)
	}

	a := netlink.Addr{IPNet: &n.Address}
	present, err := netlink.AddrList(l, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(present, a.Equal) {
		// The kernel has made it of what a router announces, which says whether its
		// network is on the link.
		return nil
	}
	if n.Address.IP.To4() == nil {
		// The server has checked that no other machine has the address: it can be
		// used at once.
		a.Flags = unix.IFA_F_NODAD
	}
	if err := netlink.AddrReplace(l, &a); err != nil {
		return err
	}

	for _, r := range n.Routes {
		route := netlink.Route{LinkIndex: l.Attrs().Index, Dst: &r.To, Gw: r.Via}
		if r.Via != nil {
			route.Flags = int(netlink.FLAG_ONLINK)
		} else {
			route.Scope = netlink.SCOPE_LINK
		}
		if err := netlink.RouteReplace(&route); err != nil {
			return fmt.Errorf("route to %s: %w", &r.To, err)
		}
	}
	return nil
}

// Close takes all interfaces down and removes their addresses, as the kernel
// does with IPv6 addresses. The next system finds the interfaces as at
// power-on.
func (n Network) Close() error {
	links, err := netlink.LinkList()
	for _, l := range links {
		if !usable(*l.Attrs()) {
			continue
		}
		addresses, listErr := netlink.AddrList(l, netlink.FAMILY_V4)
		err = errors.Join(err, listErr)
		for _, a := range addresses {
			err = errors.Join(err, netlink.AddrDel(l, &a))
		}
		if l.Attrs().Name == n.Interface && l.Attrs().MTU != n.before {
			err = errors.Join(err, netlink.LinkSetMTU(l, n.before))
		}
		err = errors.Join(err, netlink.LinkSetDown(l))
	}
	if err != nil {
		return fmt.Errorf("take network interfaces down: %w", err)
	}

	return nil
}

// MACs returns the hardware addresses of the interfaces, in their order.
func MACs() ([]string, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}

	var all []string
	for _, l := range links {
		if a := l.Attrs(); usable(*a) {
			all = append(all, a.HardwareAddr.String())
		}
	}

	return all, nil
}
