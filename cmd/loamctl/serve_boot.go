package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/loam-os/loam/cmd/loamctl/enroll"
	"github.com/loam-os/loam/cmd/loamctl/inventory"
	"github.com/loam-os/loam/cmd/loamctl/kubeconfig"
	"github.com/loam-os/loam/image/pxe"
	"github.com/loam-os/loam/image/pxe/tftp"
)

// tftpPort is the one of RFC 1350.
const tftpPort = 69

// bootOptions are the flags of serve for machines that boot from the network.
type bootOptions struct {
	builds            []string
	machines, state   string
	tokens            string
	kubeconfig, group string
	valid             time.Duration
	everybody         bool
}

// serve serves machines, and what mux has besides, until ctx ends. All that is given is checked before a
// port is opened.
func (o bootOptions) serve(ctx context.Context, listen string, mux *http.ServeMux, out io.Writer) error {
	address, err := netip.ParseAddrPort(listen)
	if err != nil || !address.Addr().Is4() || address.Addr().IsUnspecified() {
		return fmt.Errorf("--listen %s: machines have to be told one address\nhint: write the one that this machine has on their network, such as 192.0.2.1:8080", listen)
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
	site, err := o.site(out)
	if err != nil {
		return err
	}
	defer site.close()
	for arch, b := range offers.Builds {
		fmt.Fprintf(out, "boot      %s: %s, root hash %s\n", arch, b, b.RootHash())
	}
	log := journal{out: out, now: time.Now, said: map[string]time.Time{}}
	mux.Handle("/v1/", offers.Handler(site, log.say))
	return listenAndServe(ctx, address, offers, site, &log, mux)
}

// open opens the builds.
func (o bootOptions) open(address netip.AddrPort) (pxe.Offers, error) {
	offers := pxe.Offers{URL: "http://" + address.String(), Builds: map[string]*pxe.Build{}}
	for _, dir := range o.builds {
		b, err := pxe.Open(dir)
		if err != nil {
			return offers, err
		}
		if _, ok := offers.Builds[b.Arch()]; ok {
			return offers, errors.Join(fmt.Errorf("--boot %s: a second build for %s\nhint: give one for each architecture", dir, b.Arch()), b.Close())
		}
		offers.Builds[b.Arch()] = b
	}
	return offers, nil
}

// listenAndServe opens the ports and serves them, all or none.
func listenAndServe(ctx context.Context, address netip.AddrPort, offers pxe.Offers, site *site, log *journal, web http.Handler) error {
	l, err := net.Listen("tcp4", address.String())
	if err != nil {
		return err
	}
	defer l.Close()
	dhcp, proxy, err := pxe.Listen(ctx, address.Addr())
	if err != nil {
		return err
	}
	defer dhcp.Close()
	defer proxy.Close()
	files, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(address.Addr(), tftpPort)))
	if err != nil {
		return err
	}
	defer files.Close()
	fmt.Fprintf(log.out, "network   %s: ProxyDHCP, TFTP, HTTP\n", offers.URL)
	answers := pxe.Proxy{Offers: offers, Server: address.Addr(), Installed: site.IsInstalled, Said: log.offered(offers)}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return answers.Serve(ctx, dhcp, pxe.DHCPPort) })
	group.Go(func() error { return answers.Serve(ctx, proxy, pxe.ProxyPort) })
	group.Go(func() error { return transfers(offers, address.Addr(), log).Serve(ctx, files) })
	group.Go(func() error { return serve(ctx, l, web) })
	return group.Wait()
}

// transfers is the TFTP server.
func transfers(offers pxe.Offers, from netip.Addr, log *journal) *tftp.Server {
	s := &tftp.Server{
		Files: map[string]tftp.File{},
		Dial: func(client netip.AddrPort) (net.Conn, error) {
			return net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.UDPAddrFromAddrPort(client))
		},
		Ended: func(t tftp.Transfer) {
			log.say(t.Client.Addr().String(), "loads "+path.Base(t.Name)+" by TFTP", pxe.Amount(t.Size, t.Took, t.Err))
		},
	}
	for name, f := range offers.Files() {
		s.Files[name] = tftp.File{Content: f, Size: f.Size}
	}
	return s
}

// site is what is known of the machines.
type site struct {
	*enroll.Record
	machines  *os.Root // nil for none
	everybody bool
}

// site opens the inventory and the record.
func (o bootOptions) site(out io.Writer) (*site, error) {
	s := &site{everybody: o.everybody}
	if o.machines != "" {
		root, err := os.OpenRoot(o.machines)
		if err != nil {
			return nil, fmt.Errorf("--machines: %w", err)
		}
		s.machines = root
		if err := o.check(root, out); err != nil {
			return nil, errors.Join(err, root.Close())
		}
	}
	source, err := o.source()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.state, 0o700); err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	root, err := os.OpenRoot(o.state)
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	s.Record, err = enroll.Open(root, source, time.Now)
	return s, err
}

// check refuses an inventory with a mistake, and one that wants tokens that nobody gets.
func (o bootOptions) check(root *os.Root, out io.Writer) error {
	entries, err := inventory.Check(root)
	if err != nil {
		return fmt.Errorf("--machines %s: %w", o.machines, err)
	}
	for _, e := range entries {
		switch {
		case e.WantsToken() && o.tokens == "" && o.kubeconfig == "":
			return fmt.Errorf("--machines %s: %s has %s, and there are no tokens\nhint: give --tokens or --kubeconfig", o.machines, e.Name, inventory.Placeholder)
		case e.WantsToken() && !e.Own() && !o.everybody:
			return fmt.Errorf("--machines %s: %s has %s, which is for machines with a file of their own\nhint: --tokens-for-all gives one to whoever asks", o.machines, e.Name, inventory.Placeholder)
		}
	}
	own := len(slices.DeleteFunc(entries, func(e inventory.Entry) bool { return !e.Own() }))
	fmt.Fprintf(out, "machines  %s: %d\n", o.machines, own)
	return nil
}

// source is where tokens are from, nil for nowhere.
func (o bootOptions) source() (enroll.Source, error) {
	switch {
	case o.tokens != "":
		list := enroll.List(o.tokens)
		_, err := list.Tokens()
		return list, err
	case o.kubeconfig != "":
		server, err := kubeconfig.Open(o.kubeconfig, "")
		return enroll.Cluster{Server: server, For: o.valid, Group: o.group}, err
	}
	return nil, nil
}

func (s *site) close() {
	_ = s.Close()
	if s.machines != nil {
		_ = s.machines.Close()
	}
}

// Machine is the document of the inventory with the token of the machine.
func (s *site) Machine(id pxe.Identity) (text []byte, from string, err error) {
	if s.machines == nil {
		return nil, "", fmt.Errorf("no machine.yaml here: %w", os.ErrNotExist)
	}
	e, err := inventory.Find(s.machines, id.MACs, id.Serial, id.UUID)
	if err != nil || !e.WantsToken() {
		return e.With(""), e.Name, err
	}
	if !e.Own() && !s.everybody {
		return nil, "", fmt.Errorf("%s wants a join token, which is for machines with a file of their own", e.Name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	token, err := s.Token(ctx, id.MACs)
	return e.With(token), e.Name + ", with join token " + strings.SplitN(token, ".", 2)[0], err
}

// Installed notes that the machine boots from its disk.
func (s *site) Installed(id pxe.Identity) (undo string, err error) {
	return s.Record.Installed(id.MACs, strings.TrimSpace("serial "+id.Serial+", uuid "+id.UUID))
}
