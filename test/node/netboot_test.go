package node

import (
	"bufio"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/loam-os/loam/test/ethernet"
)

// siteMAC is the one that QEMU gives to a network device.
const siteMAC = "52:54:00:12:34:56"

// site is a network with a DHCP server of its own, and one machine with loamctl serve on it.
type site struct {
	hub    *ethernet.Hub
	server *bufio.Scanner
}

// newSite starts loamctl serve for a build, in the test's own network.
func newSite(t *testing.T, loss float64, args ...string) *site {
	t.Helper()
	s := &site{hub: ethernet.New(t, loss)}
	s.hub.Device("plant0", netip.MustParsePrefix("192.0.2.1/24"))
	var conn net.PacketConn
	s.hub.Apart("plant1", netip.MustParsePrefix("192.0.2.2/24"), func() (err error) {
		conn, err = ethernet.Listen(t.Context(), "plant1", 67)
		return err
	})
	t.Cleanup(func() { conn.Close() })
	go addresses(conn)

	cmd := exec.Command(loamctl(t), append([]string{"serve", "--listen", "192.0.2.1:8080", "--state", t.TempDir()}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("loamctl serve: %v\n%s", err, &stderr)
		}
	})
	s.server = bufio.NewScanner(out)
	s.says(t, `^network `)
	return s
}

// loamctl is the one that `make` built.
func loamctl(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../build/loamctl")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// says waits for a line of the server.
func (s *site) says(t *testing.T, pattern string) {
	t.Helper()
	p := regexp.MustCompile(pattern)
	for s.server.Scan() {
		t.Log(s.server.Text())
		if p.MatchString(s.server.Text()) {
			return
		}
	}
	t.Fatalf("the server ended, and never said %s", p)
}

// addresses is a DHCP server that knows nothing of boot files. It ends with conn.
func addresses(conn net.PacketConn) {
	given := map[string]byte{}
	p := make([]byte, 2048)
	for {
		n, _, err := conn.ReadFrom(p)
		if err != nil {
			return
		}
		in, err := dhcpv4.FromBytes(p[:n])
		if err != nil || in.OpCode != dhcpv4.OpcodeBootRequest {
			continue
		}
		kind := map[dhcpv4.MessageType]dhcpv4.MessageType{
			dhcpv4.MessageTypeDiscover: dhcpv4.MessageTypeOffer, dhcpv4.MessageTypeRequest: dhcpv4.MessageTypeAck,
		}[in.MessageType()]
		if kind == dhcpv4.MessageTypeNone {
			continue
		}
		mac := in.ClientHWAddr.String()
		if given[mac] == 0 {
			given[mac] = byte(100 + len(given))
		}
		server := net.IPv4(192, 0, 2, 2)
		out, err := dhcpv4.NewReplyFromRequest(in, dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(net.IPv4(192, 0, 2, given[mac])),
			dhcpv4.WithNetmask(net.IPv4Mask(255, 255, 255, 0)), dhcpv4.WithLeaseTime(3600),
			dhcpv4.WithOption(dhcpv4.OptRouter(server)), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(server)))
		if err == nil {
			_, _ = conn.WriteTo(out.ToBytes(), &net.UDPAddr{IP: net.IPv4bcast, Port: 68})
		}
	}
}

// started is a line that only a node writes which has got all of its system.
var started = regexp.MustCompile(`slot memory, root [0-9a-f]+ verified`)

// TestNetboot has firmware find its boot file beside a DHCP server that knows of none, load and start it.
func TestNetboot(t *testing.T) {
	for _, test := range []struct {
		name, kernel, asked, loaded string
		settings                    map[string]string
		loss                        float64
		every                       bool // only with LOAM_PLACES
	}{
		{name: "UEFI PXE", asked: "UEFI PXE, amd64", loaded: `pxe\.efi by TFTP: [1-9]`},
		{name: "UEFI PXE on a network that loses frames", asked: "UEFI PXE, amd64", loaded: `pxe\.efi by TFTP: [1-9]`, loss: 0.01, every: true},
		{name: "UEFI HTTP boot", asked: "UEFI HTTP boot, amd64", loaded: `pxe\.efi by HTTP: [1-9]`, settings: map[string]string{"IPv4PXESupport": "no"}, every: true},
		{name: "iPXE", kernel: "/usr/lib/ipxe/ipxe.efi", asked: "iPXE", loaded: `initrd by HTTP: [1-9]`, every: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.every && os.Getenv("LOAM_PLACES") == "" {
				t.Skip("LOAM_PLACES is not set: make test-places sets it")
			}
			if !ethernet.Own(t) {
				return
			}
			b := open(t)
			if found, _ := filepath.Glob(b.dir + "/*.pxe.efi"); found == nil {
				t.Skip("the build has no PXE set")
			}
			s := newSite(t, test.loss, "--boot", b.dir)
			m := b.flash(t, b.file(".raw"))
			m.config.Disk = ""
			m.config.Netdev = s.hub.Machine(m.config.Dir, "net")
			m.config.Kernel = test.kernel
			m.config.Settings = map[string]string{"IPv6Support": "no"}
			maps.Copy(m.config.Settings, test.settings)
			n := m.on(t, nil)
			s.says(t, siteMAC+" +"+test.asked)
			s.says(t, siteMAC+" +loads "+test.loaded)
			n.expect(started)
		})
	}
}
