package serve

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/pxe"
	"github.com/loam-os/loam/test/ethernet"
	"github.com/loam-os/loam/test/tftp"
)

const (
	machines = 50
)

// TestFiftyMachines has as many machines boot, install themselves and ask again
// at once, over a network that loses one frame of a hundred, while others take
// nothing of what they asked for.
func TestFiftyMachines(t *testing.T) {
	if !ethernet.Own(t) {
		return
	}

	build, uki, root := servedBuild(t)
	inventory := t.TempDir()
	tokens := filepath.Join(t.TempDir(), "tokens")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	var list strings.Builder
	for i := range machines {
		fmt.Fprintf(&list, "aaaa%02d.0123456789abcdef\n", i)
		write(filepath.Join(inventory, macOf(i)+".yaml"),
			fmt.Sprintf("apiVersion: loam.dev/v1alpha1\nkind: Machine\n"+
				"install: {disk: {serial: S%d}} # <<BOOTSTRAP_TOKEN>>\n", i))
	}

	write(tokens, list.String())

	hub := ethernet.New(t, 0.01)

	var addresses []netip.Prefix
	for i := range machines + 1 {
		addresses = append(addresses, netip.PrefixFrom(addressOf(i), 24))
	}

	hub.Device("machines0", addresses...)
	conn, err := ethernet.Listen(t.Context(), "machines0", 68)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	offers := newOffers(conn)

	hub.Apart("server0", netip.MustParsePrefix("192.0.2.1/24"), func() error {
		// All these machines have the MAC of one port.
		return startServer(t, "--boot", build, "--machines", inventory, "--tokens", tokens,
			"--state", t.TempDir(), "--listen", "192.0.2.1:8080", "--relayed")
	})

	stalled(t)

	var all sync.WaitGroup
	var mu sync.Mutex
	given := map[string]int{}
	for i := range machines {
		all.Go(func() {
			m := client{
				offers:  offers,
				mac:     macOf(i),
				uki:     uki,
				root:    root,
				address: addressOf(i),
			}

			token, err := m.install(t.Context())
			if err != nil {
				t.Errorf("machine %d: %v", i, err)
				return
			}

			mu.Lock()
			defer mu.Unlock()
			given[token]++
		})
	}

	all.Wait()
	if len(given) != machines {
		t.Errorf("%d tokens for %d machines: %v", len(given), machines, given)
	}
}

// TestAMachineWithManyAddressesTakesNoPlaces has one machine open more connections
// than there are places, from addresses of which none has many, and take nothing. A
// second machine is still served.
func TestAMachineWithManyAddressesTakesNoPlaces(t *testing.T) {
	if !ethernet.Own(t) {
		return
	}

	hub := ethernet.New(t, 0)
	var aliases []netip.Prefix
	for i := range 20 {
		aliases = append(aliases, netip.PrefixFrom(addressOf(i), 24))
	}
	hub.Device("many0", aliases...)

	build, _, _ := servedBuild(t)
	hub.Apart("server0", netip.MustParsePrefix("192.0.2.1/24"), func() error {
		return startServer(t, "--boot", build, "--state", t.TempDir(), "--listen", "192.0.2.1:8080")
	})

	for i := range 2 * maxConnections {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: aliases[i%len(aliases)].Addr().AsSlice()}}
		conn, err := from.DialContext(t.Context(), "tcp4", "192.0.2.1:8080")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		// It may have been closed for a later one.
		_, _ = fmt.Fprint(conn, "GET /v1/boot/00ff/root HTTP/1.1\r\nHost: 192.0.2.1:8080\r\n\r\n")
	}

	hub.Apart("honest0", netip.MustParsePrefix("192.0.2.200/24"), func() error {
		conn, err := net.Dial("tcp4", "192.0.2.1:8080")
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = fmt.Fprint(conn, "GET /v1/ipxe HTTP/1.1\r\nHost: 192.0.2.1:8080\r\n\r\n")
		if err != nil {
			return err
		}

		// The deadline is long before a place is free by itself (pxe.Patient).
		if err := conn.SetReadDeadline(time.Now().Add(15 * time.Second)); err != nil {
			return err
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	})
}

func macOf(i int) string { return fmt.Sprintf("52:54:00:00:00:%02x", i) }

func addressOf(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)}) }

// servedBuild makes a build with files of noise.
func servedBuild(t *testing.T) (dir string, uki, root []byte) {
	t.Helper()
	dir = t.TempDir()
	m := manifest.Manifest{
		Format:   manifest.Format,
		ImageID:  "loam",
		Version:  "1",
		Arch:     "amd64",
		Profile:  "metal",
		RootHash: "00ff",
	}

	noise := rand.NewChaCha8([32]byte{})
	files := map[string][]byte{
		".pxe.efi": make([]byte, 300_000),
		".vmlinuz": {1},
		".initrd":  {2},
		".root":    make([]byte, 2_000_000),
		".verity":  {3},
		".raw.zst": {4},
	}

	for end, content := range files {
		_, _ = noise.Read(content)
		m.Files = append(m.Files,
			manifest.File{
				Name:   "loam" + end,
				Size:   int64(len(content)),
				SHA256: fmt.Sprintf("%x", sha256.Sum256(content)),
			})
		if err := os.WriteFile(filepath.Join(dir, "loam"+end), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}

	text, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}

	return dir, files[".pxe.efi"], files[".root"]
}

// startServer runs the command in the network of this thread, until the test
// ends.
func startServer(t *testing.T, args ...string) error {
	cmd := exec.Command(server, args...)
	cmd.Stderr = os.Stderr

	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}

	if err := cmd.Start(); err != nil {
		return err
	}

	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "network ") {
	}

	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines.Scan() {
			t.Log(lines.Text())
		}
	}()

	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("loamctl serve: %v", err)
		}
	})

	return lines.Err()
}

// stalled are clients of one host that ask and then take nothing.
func stalled(t *testing.T) {
	t.Helper()
	for range 3 {
		conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: addressOf(machines).AsSlice()},
			&net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 69})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprint(conn, "\x00\x01v1/boot/00ff/pxe.efi\x00octet\x00")

		web, err := net.Dial("tcp4", "192.0.2.1:8080")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { web.Close() })
		fmt.Fprint(web, "GET /v1/boot/00ff/root HTTP/1.1\r\nHost: a\r\n\r\n")
	}
}

// offers are what servers broadcast, by transaction.
type offers struct {
	net.PacketConn
	mu      sync.Mutex
	waiting map[dhcpv4.TransactionID]chan *dhcpv4.DHCPv4
}

func newOffers(conn net.PacketConn) *offers {
	o := &offers{PacketConn: conn, waiting: map[dhcpv4.TransactionID]chan *dhcpv4.DHCPv4{}}
	go func() {
		p := make([]byte, 2048)
		for {
			n, _, err := conn.ReadFrom(p)
			if err != nil {
				return
			}
			if in, err := dhcpv4.FromBytes(p[:n]); err == nil {
				o.mu.Lock()
				if c := o.waiting[in.TransactionID]; c != nil && len(c) == 0 {
					c <- in
				}
				o.mu.Unlock()
			}
		}
	}()

	return o
}

// boot asks what to boot, again and again, as packets are lost.
func (o *offers) boot(mac string, tries int) (string, error) {
	address, err := net.ParseMAC(mac)
	if err != nil {
		return "", err
	}

	p, err := dhcpv4.NewDiscovery(address, dhcpv4.WithBroadcast(true),
		dhcpv4.WithOption(dhcpv4.OptClientArch(iana.EFI_X86_64)),
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient:Arch:00007:UNDI:003001")))
	if err != nil {
		return "", err
	}

	answer := make(chan *dhcpv4.DHCPv4, 1)
	o.mu.Lock()
	o.waiting[p.TransactionID] = answer
	o.mu.Unlock()

	for range tries {
		if _, err := o.WriteTo(p.ToBytes(), &net.UDPAddr{IP: net.IPv4bcast, Port: 67}); err != nil {
			return "", err
		}
		select {
		case got := <-answer:
			return got.BootFileNameOption(), nil
		case <-time.After(time.Second):
		}
	}

	return "", errors.New("no offer")
}

// client is a machine that boots and installs itself.
type client struct {
	offers    *offers
	mac       string
	address   netip.Addr
	uki, root []byte
}

// install does all that a machine does, and returns its join token.
func (m client) install(ctx context.Context) (token string, err error) {
	file, err := m.offers.boot(m.mac, 20)
	if err != nil {
		return "", err
	}

	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: m.address.AsSlice()})
	if err != nil {
		return "", err
	}
	defer conn.Close()

	got, err := tftp.Client{
		Block:  1468,
		Window: 4,
	}.Get(conn, &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 69}, file)
	if err != nil || !bytes.Equal(got, m.uki) {
		return "", fmt.Errorf("UKI: %d bytes, %w", len(got), err)
	}

	got, err = m.ask(ctx, http.MethodGet, strings.Replace(file, "pxe.efi", "root", 1),
		http.StatusPartialContent)
	if err != nil || !bytes.Equal(got, m.root[1000:]) {
		return "", fmt.Errorf("root: %d bytes, %w", len(got), err)
	}

	first, err := m.ask(ctx, http.MethodGet, "v1/machine?serial=S1&mac="+m.mac, http.StatusOK)
	if err != nil {
		return "", err
	}

	second, err := m.ask(ctx, http.MethodGet, "v1/machine?mac="+m.mac, http.StatusOK)
	if err != nil || !bytes.Equal(first, second) {
		return "", fmt.Errorf("asked twice and got %q, then %q, %w", first, second, err)
	}

	if _, err := m.ask(ctx, http.MethodPost, "v1/installed?mac="+m.mac, http.StatusOK); err != nil {
		return "", err
	}

	file, err = m.offers.boot(m.mac, 20)
	if err != nil || file != "" {
		return "", fmt.Errorf("installed, and offered %q, %w", file, err)
	}

	_, token, _ = strings.Cut(string(first), "# ")
	return token, nil
}

// ask asks over HTTP, for all but the first 1000 bytes if the answer is to be a
// part.
func (m client) ask(ctx context.Context, method, path string, status int) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://192.0.2.1:8080/"+path, nil)
	if err != nil {
		return nil, err
	}

	r.Header.Set(pxe.ClientHeader, "true")
	if status == http.StatusPartialContent {
		r.Header.Set("Range", "bytes=1000-")
	}

	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: m.address.AsSlice()}}
	answer, err := (&http.Client{Transport: &http.Transport{
		DialContext:       from.DialContext,
		DisableKeepAlives: true,
	}}).Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()

	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != status {
		err = fmt.Errorf("%s: %s: %s", path, answer.Status, text)
	}

	return text, err
}
