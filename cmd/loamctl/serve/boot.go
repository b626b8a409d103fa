package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/loam-os/loam/agent/link/neighbour"
	"github.com/loam-os/loam/agent/listen"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/pxe"
	"github.com/loam-os/loam/image/pxe/tftp"
)

// tftpPort is the one of RFC 1350.
const tftpPort = 69

// maxConnections of HTTP are served at once.
const maxConnections = 512

// bootOptions are the flags of serve for machines that boot from the network.
type bootOptions struct {
	builds            []string
	machines, state   string
	tokens            string
	kubeconfig, group string
	valid             time.Duration
	everybody         bool
	relayed           bool
}

// serve serves machines, and what mux has besides, until ctx ends. All that is
// given is checked before a port is opened.
func (o bootOptions) serve(
	ctx context.Context, listen string, mux *http.ServeMux, names hosts, out io.Writer,
) error {
	address, err := netip.ParseAddrPort(listen)
	address = netip.AddrPortFrom(address.Addr().Unmap(), address.Port())
	own := (address.Addr().Is4() && address.Addr().IsLoopback()) ||
		(address.Addr().Is6() && address.Addr().IsLinkLocalUnicast())
	if err != nil || address.Addr().IsUnspecified() || own {
		return hint.With(
			usage.Errorf("--listen %s: machines need one address of this server", listen),
			"use the address of this machine on their network, such as 192.0.2.1:8080 or "+
				"[2001:db8::1]:8080",
		)
	}

	offers, err := o.open(address)
	if err != nil {
		return err
	}
	defer func() {
		for _, b := range offers.Builds {
			_ = b.Close()
		}
	}()

	machines, err := o.machineServer(out)
	if err != nil {
		return err
	}
	defer machines.close()

	for _, arch := range slices.Sorted(maps.Keys(offers.Builds)) {
		b := offers.Builds[arch]
		fmt.Fprintf(out, "boot      %s: %s, root hash %s\n", arch, b, b.RootHash())
	}

	log := journal{out: out, now: time.Now, said: map[string]time.Time{}}
	mux.Handle("/v1/", offers.Handler(machines, log.say))
	return listenAndServe(ctx, address, offers, machines, &log, o.owner(), names.guard(mux))
}

// owner returns what connections are counted by.
func (o bootOptions) owner() listen.Owner {
	if o.relayed {
		return neighbour.Network
	}
	return neighbour.Of
}

// open opens the builds.
func (o bootOptions) open(address netip.AddrPort) (pxe.Offers, error) {
	offers := pxe.Offers{URL: "http://" + address.String(), Builds: map[string]*pxe.Build{}}
	if !o.relayed {
		offers.Neighbour = neighbour.MAC
	}
	for _, dir := range o.builds {
		b, err := pxe.Open(dir)
		if err != nil {
			return offers, err
		}
		if _, ok := offers.Builds[b.Arch()]; ok {
			return offers, errors.Join(hint.With(
				usage.Errorf("--boot %s: a second build for %s", dir, b.Arch()),
				"give one for each architecture",
			), b.Close())
		}
		offers.Builds[b.Arch()] = b
	}

	return offers, nil
}

// listenAndServe opens the ports and serves them, all or none.
func listenAndServe(
	ctx context.Context,
	address netip.AddrPort,
	offers pxe.Offers,
	machines *machineServer,
	log *journal,
	owner listen.Owner,
	web http.Handler,
) error {
	l, err := net.Listen("tcp", address.String())
	if err != nil {
		return err
	}
	defer l.Close()

	if address.Addr().Is6() {
		fmt.Fprintf(log.out,
			"network   %s: HTTP. The network's DHCPv6 server has to give, "+
				"as boot file URL (option 59):\n", offers.URL)
		for _, whom := range slices.Sorted(maps.Keys(offers.BootFiles())) {
			fmt.Fprintf(log.out, "          %-33s %s\n", whom, offers.BootFiles()[whom])
		}
		return serve(ctx, l, owner, web)
	}

	dhcp, proxy, err := pxe.Listen(ctx, address.Addr())
	if err != nil {
		return err
	}
	defer dhcp.Close()

	defer proxy.Close()

	files, err := net.ListenUDP("udp4",
		net.UDPAddrFromAddrPort(netip.AddrPortFrom(address.Addr(), tftpPort)))
	if err != nil {
		return err
	}
	defer files.Close()

	fmt.Fprintf(log.out, "network   %s: ProxyDHCP, TFTP, HTTP\n", offers.URL)
	answers := pxe.Proxy{
		Offers:    offers,
		Server:    address.Addr(),
		Installed: machines.IsInstalled,
		Admit:     machines.Admit,
		Said:      log.offered(offers),
	}

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return answers.Serve(ctx, dhcp, pxe.DHCPPort) })
	group.Go(func() error { return answers.Serve(ctx, proxy, pxe.ProxyPort) })
	group.Go(func() error {
		return transfers(offers, address.Addr(), owner, log).Serve(ctx, files)
	})
	group.Go(func() error { return serve(ctx, l, owner, web) })

	return group.Wait()
}

// transfers is the TFTP server.
func transfers(
	offers pxe.Offers, from netip.Addr, owner listen.Owner, log *journal,
) *tftp.Server {
	s := &tftp.Server{
		Files: map[string]tftp.File{},
		Owner: owner,
		Dial: func(client netip.AddrPort) (net.Conn, error) {
			return net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)),
				net.UDPAddrFromAddrPort(client))
		},
		Ended: func(t tftp.Transfer) {
			asked := "loads " + path.Base(t.Name) + " by TFTP"
			if errors.Is(t.Err, tftp.ErrNotFound) {
				// whatever the client called it
				asked = fmt.Sprintf("asks for %.100q by TFTP", t.Name)
			}
			log.say(t.Client.Addr().String(), asked, pxe.Amount(t.Size, t.Took, t.Err))
		},
	}

	for name, f := range offers.Files() {
		s.Files[name] = tftp.File{Content: f, Size: f.Size}
	}
	return s
}
