package pxe

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/loam-os/loam/image/manifest"
)

var (
	mac    = net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56}
	server = netip.MustParseAddr("192.0.2.1")
	guid   = append([]byte{0}, "0123456789abcdef"...)
)

// offers has a build for each architecture that is named.
func offers(archs ...string) Offers {
	o := Offers{URL: "http://192.0.2.1:8080", Builds: map[string]*Build{}}
	for _, arch := range archs {
		o.Builds[arch] = &Build{manifest: manifest.Manifest{
			ImageID:     "loam",
			Version:     "1",
			Profile:     "metal",
			Arch:        arch,
			RootHash:    arch + "-hash",
			LiveCmdline: "quiet",
		}}
	}
	return o
}

// packet is one as firmware sends it: EDK2 and iPXE as captured, others by
// their specification.
func packet(class string, arch iana.Arch, more ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	p, err := dhcpv4.NewDiscovery(mac, append([]dhcpv4.Modifier{
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier(class)),
		dhcpv4.WithOption(dhcpv4.OptClientArch(arch)),
		dhcpv4.WithGeneric(dhcpv4.OptionClientMachineIdentifier, guid),
		dhcpv4.WithBroadcast(true),
	}, more...)...)
	if err != nil {
		panic(err)
	}
	return p
}

func TestOffers(t *testing.T) {
	const url = "http://192.0.2.1:8080"
	both := offers("amd64", "arm64")
	ipxe := dhcpv4.WithUserClass("iPXE", false)
	for _, test := range []struct {
		name      string
		packet    *dhcpv4.DHCPv4
		offers    Offers
		installed bool
		kind      Kind
		want      Offer
		wantErr   string
	}{
		{
			name:   "UEFI PXE on x64",
			packet: packet("PXEClient:Arch:00007:UNDI:003001", 7),
			offers: both,
			kind:   Firmware,
			want:   Offer{"PXEClient", "v1/boot/amd64-hash/pxe.efi", false},
		},
		{
			name:   "UEFI PXE on x64, by the number of the RFC",
			packet: packet("PXEClient:Arch:00009:UNDI:003001", 9),
			offers: both,
			kind:   Firmware,
			want:   Offer{"PXEClient", "v1/boot/amd64-hash/pxe.efi", false},
		},
		{
			name:   "UEFI PXE on arm64",
			packet: packet("PXEClient:Arch:00011:UNDI:003001", 11),
			offers: both,
			kind:   Firmware,
			want:   Offer{"PXEClient", "v1/boot/arm64-hash/pxe.efi", false},
		},
		{
			name:   "UEFI PXE that says its architecture in option 60 alone",
			offers: both,
			kind:   Firmware,
			packet: packet("PXEClient:Arch:00007:UNDI:003001", 7,
				dhcpv4.WithoutOption(dhcpv4.OptionClientSystemArchitectureType)),
			want: Offer{"PXEClient", "v1/boot/amd64-hash/pxe.efi", false},
		},
		{
			name:   "HTTP boot on x64",
			packet: packet("HTTPClient:Arch:00016:UNDI:003001", 16),
			offers: both,
			kind:   HTTPBoot,
			want:   Offer{"HTTPClient", url + "/v1/boot/amd64-hash/pxe.efi", false},
		},
		{
			name:   "HTTP boot on arm64",
			packet: packet("HTTPClient:Arch:00019:UNDI:003001", 19),
			offers: both,
			kind:   HTTPBoot,
			want:   Offer{"HTTPClient", url + "/v1/boot/arm64-hash/pxe.efi", false},
		},
		{
			name:   "iPXE",
			packet: packet("PXEClient:Arch:00007:UNDI:003010", 7, ipxe),
			offers: both,
			kind:   IPXE,
			want:   Offer{"PXEClient", url + "/v1/ipxe", false},
		},
		{
			name: "iPXE with a user class of RFC 3004",
			packet: packet("PXEClient:Arch:00011:UNDI:003010", 11,
				dhcpv4.WithUserClass("iPXE", true)),
			offers: both,
			kind:   IPXE,
			want:   Offer{"PXEClient", url + "/v1/ipxe", false},
		},
		{
			name:   "iPXE that only has its own options",
			offers: both,
			kind:   IPXE,
			want:   Offer{"PXEClient", url + "/v1/ipxe", false},
			packet: packet("PXEClient:Arch:00007:UNDI:003010", 7,
				dhcpv4.WithGeneric(dhcpv4.OptionEtherboot,
					[]byte{0xb1, 5, 1, 0x1a, 0xf4, 0x10, 0})),
		},
		{
			name:   "iPXE that a BIOS has started",
			packet: packet("PXEClient:Arch:00000:UNDI:002001", 0, ipxe),
			offers: both,
			kind:   IPXE,
			want:   Offer{"PXEClient", url + "/v1/ipxe", false},
		},
		{
			name:   "Loam that asks for its server",
			packet: packet("LoamClient:Arch:00007", 7),
			offers: both,
			kind:   Init,
			want:   Offer{"LoamClient", url, false},
		},
		{
			name:      "Loam on a machine that is installed, and runs from RAM",
			packet:    packet("LoamClient:Arch:00007", 7),
			offers:    both,
			installed: true,
			kind:      Init,
			want:      Offer{"LoamClient", url, false},
		},
		{
			name:    "BIOS",
			packet:  packet("PXEClient:Arch:00000:UNDI:002001", 0),
			offers:  both,
			kind:    BIOS,
			wantErr: "starts as a BIOS",
		},
		{
			name:      "an installed machine",
			packet:    packet("PXEClient:Arch:00007:UNDI:003001", 7),
			offers:    both,
			installed: true,
			kind:      Firmware,
			want:      Offer{"PXEClient", "", true},
		},
		{
			name:      "iPXE on an installed machine",
			packet:    packet("PXEClient:Arch:00007:UNDI:003010", 7, ipxe),
			offers:    both,
			installed: true,
			kind:      IPXE,
			want:      Offer{"PXEClient", url + "/v1/ipxe", true},
		},
		{
			name:      "HTTP boot on an installed machine",
			packet:    packet("HTTPClient:Arch:00016:UNDI:003001", 16),
			offers:    both,
			installed: true,
			kind:      HTTPBoot,
			want:      Offer{"HTTPClient", url + "/v1/disk", true},
		},
		{
			name:    "arm64 without a build for it",
			packet:  packet("PXEClient:Arch:00011:UNDI:003001", 11),
			offers:  offers("amd64"),
			kind:    Firmware,
			wantErr: "no build for arm64",
		},
		{
			name:   "UEFI on 32 bits",
			packet: packet("PXEClient:Arch:00006:UNDI:003001", 6),
			offers: both,
		},
		{
			name:   "HTTP boot of a BIOS",
			packet: packet("HTTPClient:Arch:00020:UNDI:003001", 20),
			offers: both,
		},
		{
			name:   "PXE with an architecture of HTTP boot",
			packet: packet("PXEClient:Arch:00016:UNDI:003001", 16),
			offers: both,
		},
		{name: "a laptop that wants an address", packet: packet("MSFT 5.0", 7), offers: both},
		{name: "a class without an architecture", packet: packet("PXEClient", none), offers: both},
		{
			name:   "a network that is not Ethernet",
			packet: packet("PXEClient:Arch:00007", 7, dhcpv4.WithHwAddr(make(net.HardwareAddr, 8))),
			offers: both,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := ParseRequest(test.packet)
			if r.Kind != test.kind {
				t.Fatalf("kind %q, want %q", r.Kind, test.kind)
			}
			if r.Kind == "" {
				return
			}

			if r.MAC != mac.String() ||
				!slices.Equal(r.UUIDs,
					[]string{
						"30313233-3435-3637-3839-616263646566",
						"33323130-3534-3736-3839-616263646566",
					}) {
				t.Errorf("MAC %s, UUIDs %s", r.MAC, r.UUIDs)
			}

			got, err := test.offers.For(r, test.installed)
			if (err != nil) != (test.wantErr != "") ||
				(err != nil && !strings.Contains(err.Error(), test.wantErr)) {
				t.Fatalf("error %v, want %q", err, test.wantErr)
			}

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("offer (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAMachineThatIsNotExpected is not booted; what runs already, or starts
// from its disk, goes on.
func TestAMachineThatIsNotExpected(t *testing.T) {
	errNobody := errors.New("nobody expects it")

	for _, test := range []struct {
		name, class string
		installed   bool
		answered    bool
	}{
		{name: "firmware", class: "PXEClient:Arch:00007"},
		{
			name:      "an installed machine",
			class:     "PXEClient:Arch:00007",
			installed: true,
			answered:  true,
		},
		{name: "Loam", class: "LoamClient:Arch:00007", answered: true},
	} {
		var said error
		proxy := Proxy{
			Offers:    offers("amd64"),
			Server:    server,
			Installed: func(string, []string) bool { return test.installed },
			Admit:     func(Request) error { return errNobody },
			Said:      func(_ Request, _ Offer, err error) { said = err },
		}
		out, _ := proxy.answer(packet(test.class, 7).ToBytes(), &net.UDPAddr{}, DHCPPort)
		if (out != nil) != test.answered || errors.Is(said, errNobody) == test.answered {
			t.Errorf("%s: answered %t, said %v", test.name, out != nil, said)
		}
	}
}

func TestAUUIDThatIsNone(t *testing.T) {
	for _, field := range [][]byte{
		nil, make([]byte, 17), append([]byte{0}, bytes.Repeat([]byte{255}, 16)...), guid[:16],
		append([]byte{1}, guid[1:]...),
	} {
		got := ParseRequest(packet("PXEClient", 7,
			dhcpv4.WithGeneric(dhcpv4.OptionClientMachineIdentifier, field))).UUIDs
		if got != nil {
			t.Errorf("%x: %s", field, got)
		}
	}
}

func TestOnlyMessagesToABootServerAreAnswered(t *testing.T) {
	for _, test := range []struct {
		name string
		kind dhcpv4.MessageType
		port int
		want dhcpv4.MessageType
	}{
		{
			"a machine without an address",
			dhcpv4.MessageTypeDiscover,
			DHCPPort,
			dhcpv4.MessageTypeOffer,
		},
		{"a machine with an address", dhcpv4.MessageTypeRequest, ProxyPort, dhcpv4.MessageTypeAck},
		{
			"a machine that informs itself",
			dhcpv4.MessageTypeInform,
			ProxyPort,
			dhcpv4.MessageTypeAck,
		},
		{
			"a request for an address, which is the DHCP server's",
			dhcpv4.MessageTypeRequest,
			DHCPPort,
			0,
		},
		{"an address that is given up", dhcpv4.MessageTypeRelease, DHCPPort, 0},
		{"a discovery at the other port", dhcpv4.MessageTypeDiscover, ProxyPort, 0},
	} {
		p := packet("PXEClient:Arch:00007", 7, dhcpv4.WithMessageType(test.kind))
		if got, ok := answers(p, test.port); got != test.want || ok != (test.want != 0) {
			t.Errorf("%s: %s, %t", test.name, got, ok)
		}
	}
}

// TestReply reads the reply as the machine does.
func TestReply(t *testing.T) {
	in := packet("PXEClient:Arch:00007:UNDI:003001", 7)
	sent, err := reply(in, dhcpv4.MessageTypeOffer,
		Offer{Class: pxeClass, File: "v1/boot/hash/pxe.efi"}, server)
	if err != nil {
		t.Fatal(err)
	}

	out, err := dhcpv4.FromBytes(sent.ToBytes())
	if err != nil {
		t.Fatal(err)
	}

	got := map[string]any{
		"op": out.OpCode, "xid": out.TransactionID == in.TransactionID,
		"mac": out.ClientHWAddr.String(), "broadcast": out.IsBroadcast(),
		"address given": out.YourIPAddr.String(),
		"lease":         out.Options.Has(dhcpv4.OptionIPAddressLeaseTime),
		"next server":   out.ServerIPAddr.String(), "server": out.ServerIdentifier().String(),
		"class":     out.ClassIdentifier(),
		"guid":      string(out.Options.Get(dhcpv4.OptionClientMachineIdentifier)),
		"option 67": out.BootFileNameOption(), "file": out.BootFileName,
		"vendor": string(out.Options.Get(dhcpv4.OptionVendorSpecificInformation)),
	}

	want := map[string]any{
		"op": dhcpv4.OpcodeBootReply, "xid": true, "mac": mac.String(), "broadcast": true,
		"address given": "0.0.0.0", "lease": false,
		"next server": "192.0.2.1", "server": "192.0.2.1", "class": "PXEClient",
		"guid": string(guid), "option 67": "v1/boot/hash/pxe.efi", "file": "v1/boot/hash/pxe.efi",
		"vendor": "\x06\x01\x08\xff",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}

	long := Offer{Class: httpClass, File: "http://192.0.2.1:8080/" + strings.Repeat("a", 150)}
	out, err = reply(in, dhcpv4.MessageTypeOffer, long, server)
	if err != nil || out.BootFileName != "" || out.BootFileNameOption() != long.File {
		t.Errorf("a name that is too long for its field: %v, %q, %q",
			err, out.BootFileName, out.BootFileNameOption())
	}

	out, err = reply(in, dhcpv4.MessageTypeOffer, Offer{Class: pxeClass, Disk: true}, server)
	menu := string(out.Options.Get(dhcpv4.OptionVendorSpecificInformation))
	if err != nil || out.Options.Has(dhcpv4.OptionBootfileName) ||
		!strings.Contains(menu, "\x09\x07\x00\x00\x04disk") {
		t.Errorf("the machine's own disk: %v, %q, %s", err, menu, out.Summary())
	}
}

func TestDestination(t *testing.T) {
	from := &net.UDPAddr{IP: net.IPv4(192, 0, 2, 100), Port: 1024}

	for _, test := range []struct {
		name   string
		packet *dhcpv4.DHCPv4
		port   int
		want   string
	}{
		{"no address yet", packet("PXEClient", 7), DHCPPort, "255.255.255.255:68"},
		{
			"an address",
			packet("PXEClient", 7, dhcpv4.WithClientIP(net.IPv4(192, 0, 2, 100))),
			DHCPPort,
			"192.0.2.100:68",
		},
		{
			"behind a relay",
			packet("PXEClient", 7, dhcpv4.WithRelay(net.IPv4(198, 51, 100, 1))),
			DHCPPort,
			"198.51.100.1:67",
		},
		{"at the port of the proxy", packet("PXEClient", 7), ProxyPort, "192.0.2.100:1024"},
	} {
		if got := destination(test.packet, from, test.port).String(); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// FuzzAnswer holds that nothing is answered that is no request, and that an
// answer gives no address.
func FuzzAnswer(f *testing.F) {
	for _, p := range []*dhcpv4.DHCPv4{
		packet("PXEClient:Arch:00007:UNDI:003001", 7), packet("HTTPClient:Arch:00016", 16),
		packet("LoamClient:Arch:00011", 11),
		packet("PXEClient:Arch:00007", 7, dhcpv4.WithUserClass("iPXE", true)),
	} {
		f.Add(p.ToBytes(), true)
	}

	proxy := Proxy{
		Offers:    offers("amd64", "arm64"),
		Server:    server,
		Installed: func(string, []string) bool { return false },
		Admit:     func(Request) error { return nil },
		Said:      func(Request, Offer, error) {},
	}

	f.Fuzz(func(t *testing.T, text []byte, first bool) {
		port := map[bool]int{true: DHCPPort, false: ProxyPort}[first]
		out, to := proxy.answer(text, &net.UDPAddr{IP: net.IPv4(192, 0, 2, 100), Port: 68}, port)
		if out == nil {
			return
		}

		p, err := dhcpv4.FromBytes(out)
		if err != nil || to == nil {
			t.Fatalf("%v, to %v", err, to)
		}

		if p.OpCode != dhcpv4.OpcodeBootReply || !p.YourIPAddr.IsUnspecified() ||
			p.Options.Has(dhcpv4.OptionIPAddressLeaseTime) {
			t.Errorf("%s", p.Summary())
		}
	})
}
