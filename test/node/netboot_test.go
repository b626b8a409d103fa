package node

import (
	"bufio"
	"errors"
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
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/loam-os/loam/test/ethernet"
	"github.com/loam-os/loam/test/judge"
)

// machineMAC is the MAC that QEMU gives to a network device.
const machineMAC = "52:54:00:12:34:56"

// bootServer is loamctl serve, on a network with a DHCP server of its own.
type bootServer struct {
	hub    *ethernet.Hub
	server *bufio.Scanner
}

// newServer starts loamctl serve for a build, in the test's own network.
func newServer(t *testing.T, loss float64, args ...string) *bootServer {
	t.Helper()
	hub := ethernet.New(t, loss)
	hub.Device("plant0", netip.MustParsePrefix("192.0.2.1/24"))
	var conn net.PacketConn
	hub.Apart("plant1", netip.MustParsePrefix("192.0.2.2/24"), func() (err error) {
		conn, err = ethernet.Listen(t.Context(), "plant1", 67)
		return err
	})

	t.Cleanup(func() { conn.Close() })
	go addresses(conn)
	s := serving(t, append(args, "--listen", "192.0.2.1:8080")...)
	s.hub = hub

	return s
}

// serving starts loamctl serve, until the test ends.
func serving(t *testing.T, args ...string) *bootServer {
	cmd := exec.Command(loamctl(t), append([]string{"serve", "--state", t.TempDir()}, args...)...)
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

	s := &bootServer{server: bufio.NewScanner(out)}
	s.says(t, `^network `)
	return s
}

// loamctl is the program that `make` built.
func loamctl(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../build/loamctl")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// says waits for a line of the server, and returns the last group of what it
// matches.
func (s *bootServer) says(t *testing.T, pattern string) string {
	t.Helper()
	p := regexp.MustCompile(pattern)
	for s.server.Scan() {
		t.Log(s.server.Text())
		if groups := p.FindStringSubmatch(s.server.Text()); groups != nil {
			return groups[len(groups)-1]
		}
	}

	t.Fatalf("the server ended, and never said %s", p)
	return ""
}

// addresses is a DHCP server that knows nothing of boot files. It ends with
// conn.
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
			dhcpv4.MessageTypeDiscover: dhcpv4.MessageTypeOffer,
			dhcpv4.MessageTypeRequest:  dhcpv4.MessageTypeAck,
		}[in.MessageType()]
		if kind == dhcpv4.MessageTypeNone {
			continue
		}

		mac := in.ClientHWAddr.String()
		if given[mac] == 0 {
			given[mac] = byte(100 + len(given))
		}

		server := net.IPv4(192, 0, 2, 2)
		out, err := dhcpv4.NewReplyFromRequest(in, dhcpv4.WithMessageType(kind),
			dhcpv4.WithYourIP(net.IPv4(192, 0, 2, given[mac])),
			dhcpv4.WithNetmask(net.IPv4Mask(255, 255, 255, 0)), dhcpv4.WithLeaseTime(3600),
			dhcpv4.WithOption(dhcpv4.OptRouter(server)),
			dhcpv4.WithOption(dhcpv4.OptServerIdentifier(server)))
		if err == nil {
			_, _ = conn.WriteTo(out.ToBytes(), &net.UDPAddr{IP: net.IPv4bcast, Port: 68})
		}
	}
}

// inventory is a directory with the machine.yaml of one machine.
func inventory(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()

	err := os.WriteFile(filepath.Join(dir, machineMAC+".yaml"), []byte(text), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// plugged is a machine on the network of s, with firmware that boots from it
// first.
func (s *bootServer) plugged(t *testing.T, b build) *machine {
	t.Helper()
	m := b.flash(t, b.file(".raw"))
	m.config.Disk = ""
	m.config.Netdev = s.hub.Machine(m.config.Dir, "net")
	m.config.Settings = map[string]string{"IPv6Support": "no"}

	return m
}

// TestNetboot has firmware find its boot file beside a DHCP server that knows
// of none, and the node run what it gets.
func TestNetboot(t *testing.T) {
	judge.Long(t, "image/pxe")
	parallel(t, 5*time.Minute)
	for _, test := range []struct {
		name          string
		asked, loaded string
		ipxe          bool
		settings      map[string]string
		loss          float64
		always        bool // also without LOAM_PLACES
	}{
		{
			name:   "UEFI PXE",
			asked:  "UEFI PXE asks",
			loaded: "pxe.efi by TFTP",
			always: true,
		},
		{
			name:   "UEFI PXE on a network that loses frames",
			asked:  "UEFI PXE asks",
			loaded: "pxe.efi by TFTP",
			loss:   0.01,
		},
		{
			name:     "UEFI HTTP boot",
			asked:    "UEFI HTTP boot asks",
			loaded:   "pxe.efi by HTTP",
			settings: map[string]string{"IPv4PXESupport": "no"},
		},
		{
			name:   "iPXE",
			asked:  "iPXE asks what to do: boot",
			loaded: "initrd by HTTP",
			ipxe:   true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !test.always {
				onlyInPlaces(t)
			}

			if !ethernet.Own(t) {
				return
			}

			b := open(t)
			s := newServer(t, test.loss, "--boot", b.dir, "--machines",
				inventory(t,
					machineYAML(b.manifest.Arch, "source: {credential: {name: loam.config}}\n")))

			m := s.plugged(t, b)
			maps.Copy(m.config.Settings, test.settings)

			if test.ipxe {
				m.config.Kernel = "/usr/lib/ipxe/ipxe-" + b.manifest.Arch + ".efi"
			}

			n := m.on(t,
				map[string]string{"loam.config": string(readFile(t, "../../examples/hello.yaml"))})
			s.says(t, machineMAC+" +"+test.asked)
			s.says(t, machineMAC+" +loads "+test.loaded+": [1-9]")
			s.says(t, machineMAC+" +asks for its machine.yaml.*: "+machineMAC+".yaml$")
			s.says(t, machineMAC+" +loads root by HTTP: [1-9]")
			n.applied()
		})
	}
}

// TestNetbootInstalls has a machine put its system on its disk and boot from
// there: the server sends it on to its disk from then on, and boots it from the
// network again when the operator says so.
func TestNetbootInstalls(t *testing.T) {
	matrix(t)
	if !ethernet.Own(t) {
		return
	}

	b := open(t)
	s := newServer(t, 0, "--boot", b.dir, "--machines",
		inventory(t, machineYAML(b.manifest.Arch, "source: {credential: {name: loam.config}}\n"+
			"install: {disk: {onlyEmpty: true}}\n")))

	m := s.plugged(t, b)
	m.config.Disk = filepath.Join(m.config.Dir, "disk.raw")
	err := errors.Join(os.WriteFile(m.config.Disk, nil, 0o644), os.Truncate(m.config.Disk, 8<<30))
	if err != nil {
		t.Fatal(err)
	}

	credentials := map[string]string{
		"loam.config": string(readFile(t, "../../examples/hello.yaml")),
	}

	n := m.on(t, credentials)
	s.says(t, machineMAC+" +loads disk.raw.zst by HTTP: [1-9]")
	undo := s.says(t,
		machineMAC+" +is installed.*: boots from its disk from now on; "+
			"from the network again: rm (.*)$")

	n.applied()
	n.shell()

	if s := n.status(); s.Slot != "a" || s.RootHash != b.manifest.RootHash ||
		s.Hostname != "hello" {
		t.Errorf("status %+v", s)
	}

	n.off()

	n = m.on(t, credentials) // QEMU has the firmware ask the network first
	s.says(t, machineMAC+" +UEFI PXE asks what to boot: its disk, as it is installed$")
	n.applied()
	n.shell()
	n.want("loam status -o json | grep -o '\"slot\": *\"[a-z]*\"' | tr -d ' '", `"slot":"a"`)
	n.off()

	if err := os.Remove(undo); err != nil {
		t.Fatal(err)
	}

	m.on(t, credentials)
	s.says(t, machineMAC+" +loads pxe.efi by TFTP: [1-9]")
}
