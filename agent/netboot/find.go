package netboot

import (
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/link"
	"github.com/loam-os/loam/firmware/identity"
	"github.com/loam-os/loam/hint/redact"
)

const (
	// resolvConf is where Go's resolver finds the DNS servers.
	resolvConf = "/etc/resolv.conf"
	// idleTimeout is how long a connection may be idle.
	idleTimeout = 15 * time.Second
	// requestTimeout is how long a server may be unreachable.
	requestTimeout = 10 * time.Minute
)

// Await finds the server, while the drivers of network interfaces are loaded as
// they appear.
func Await(ctx context.Context, i *boot.Init, rootHash [32]byte, url string) (*Server, error) {
	ctx, stop := context.WithTimeout(ctx, requestTimeout)
	plugged := make(chan struct{})
	go func() {
		defer close(plugged)
		for ctx.Err() == nil {
			i.Await(time.Now().Add(time.Second))
			i.Alive()
		}
	}()

	s, err := find(ctx, rootHash, url, i.Say)
	stop()
	<-plugged
	if err == nil {
		s.Moved = i.Alive
	}

	return s, err
}

// find brings the network up and returns the server: url, the kernel's
// parameter loam.server, or else the URL from DHCP.
func find(
	ctx context.Context, rootHash [32]byte, url string, say func(format string, args ...any),
) (*Server, error) {
	s := &Server{
		URL:            url,
		RootHash:       rootHash,
		Client:         NewClient(idleTimeout),
		Say:            say,
		Moved:          func() {},
		RequestTimeout: requestTimeout,
		Wait:           pause,
	}

	if url != "" {
		if err := CheckURL(url); err != nil {
			return nil, fmt.Errorf("kernel command line: loam.server: %w", err)
		}
	}

	s.Node = identify(os.DirFS("/"))
	client := link.Client{
		Class: class(runtime.GOARCH),
		Arch:  architectures[runtime.GOARCH],
		UUID:  smbiosUUID(s.Node.UUID),
		URL:   url,
	}

	n, err := link.Connect(ctx, client, say)
	if err != nil {
		return nil, err
	}
	s.network = n

	if url == "" {
		s.URL = n.URL
	}

	if err := CheckURL(s.URL); err != nil {
		return nil, fmt.Errorf("boot file name of DHCP: %w", err)
	}

	say("network interface %s has address %s; the server is %s", n.Interface, &n.Address, redact.URLs(s.URL))
	if err := resolve(n.DNS); err != nil {
		return nil, err
	}

	s.Node.MACs, err = link.MACs()
	return s, err
}

// Close leaves the network as it was at power-on.
func (s *Server) Close() error {
	s.Client.CloseIdleConnections()
	return s.network.Close()
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// architectures are the numbers of UEFI machines (RFC 4578, section 2.1, and
// IANA's registry of processor architectures).
var architectures = map[string]uint16{"amd64": 7, "arm64": 11}

func class(goarch string) string {
	return fmt.Sprintf("LoamClient:Arch:%05d", architectures[goarch])
}

func resolve(servers []net.IP) error {
	var text strings.Builder
	for _, s := range servers {
		fmt.Fprintf(&text, "nameserver %s\n", s)
	}

	if err := os.MkdirAll("/etc", 0o755); err != nil {
		return fmt.Errorf("name servers: %w", err)
	}
	if err := os.WriteFile(resolvConf, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("name servers: %w", err)
	}

	return nil
}

// identify reads the identity that firmware gives the machine; root is the root
// directory.
func identify(root fs.FS) Identity {
	return Identity{Serial: identity.Serial(root), UUID: identity.UUID(root), Arch: runtime.GOARCH}
}

// smbiosUUID returns the bytes of a UUID in the order of SMBIOS: the first
// three fields are little-endian (System Management BIOS 3.6, 7.2.1). It
// returns nil if text is not a UUID.
func smbiosUUID(text string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != 16 {
		return nil
	}
	return []byte{
		b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12],
		b[13], b[14], b[15],
	}
}
