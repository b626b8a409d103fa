package pxe

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
)

// Kind is what a machine asks by.
type Kind string

// The kinds of request; "" is any other request, which gets no answer.
const (
	Firmware Kind = "UEFI PXE"
	HTTPBoot Kind = "UEFI HTTP boot"
	IPXE     Kind = "iPXE"
	BIOS     Kind = "BIOS PXE"
	// Init is /init of a system that runs already and does not know its server.
	Init Kind = "Loam"
)

// Classes are what option 60 begins with.
const (
	pxeClass  = "PXEClient"
	httpClass = "HTTPClient"
	loamClass = "LoamClient"
)

// Request is what a packet asks for.
type Request struct {
	Kind Kind

	// Arch is as Go names it, "" for an architecture that Loam does not
	// support.
	Arch string

	// MAC is in lower case, with colons.
	MAC string

	// UUIDs is what option 97 may mean, nil if it says nothing: the fields of
	// SMBIOS begin with the low byte, and not all firmware turns them.
	UUIDs []string
}

// firmware says what of the architectures of RFC 4578 and the registry that
// goes on from it boots Loam. By that RFC 7 is EFI byte code and 9 is x64;
// firmware takes 7 for x64.
var firmware = map[iana.Arch]Request{
	iana.INTEL_X86PC:     {Kind: BIOS, Arch: "amd64"},
	iana.EFI_X86_64:      {Kind: Firmware, Arch: "amd64"},
	iana.EFI_BC:          {Kind: Firmware, Arch: "amd64"},
	iana.EFI_ARM64:       {Kind: Firmware, Arch: "arm64"},
	iana.EFI_X86_64_HTTP: {Kind: HTTPBoot, Arch: "amd64"},
	iana.EFI_ARM64_HTTP:  {Kind: HTTPBoot, Arch: "arm64"},
}

// ParseRequest says what a packet asks for. One with Kind "" comes from a
// machine that wants no boot file, or none that is here.
func ParseRequest(p *dhcpv4.DHCPv4) Request {
	if p.OpCode != dhcpv4.OpcodeBootRequest || len(p.ClientHWAddr) != 6 {
		return Request{}
	}

	class := p.ClassIdentifier()
	r := firmware[arch(p, class)]
	r.MAC = p.ClientHWAddr.String()
	r.UUIDs = uuids(p.Options.Get(dhcpv4.OptionClientMachineIdentifier))

	switch {
	case strings.HasPrefix(class, loamClass):
		r.Kind = Init
	case isIPXE(p):
		r.Kind = IPXE
	case strings.HasPrefix(class, pxeClass) && (r.Kind == Firmware || r.Kind == BIOS):
	case strings.HasPrefix(class, httpClass) && r.Kind == HTTPBoot:
	default:
		r.Kind = ""
	}

	return r
}

// isIPXE knows iPXE by its user class, which it writes without the length that
// RFC 3004 wants, or by its encapsulated options.
func isIPXE(p *dhcpv4.DHCPv4) bool {
	return p.Options.Has(dhcpv4.OptionEtherboot) || slices.Contains(p.UserClass(), "iPXE") ||
		string(p.Options.Get(dhcpv4.OptionUserClassInformation)) == "iPXE"
}

// uuids reads option 97: type 0 and 16 bytes (RFC 4578, section 2.3), which are
// all the same of a machine that has none.
func uuids(field []byte) []string {
	if len(field) != 17 || field[0] != 0 {
		return nil
	}

	return orders(uuid.UUID(field[1:]))
}

// orders are what a UUID may mean; nil if it is one of a machine that has none.
func orders(id uuid.UUID) []string {
	if id == uuid.Nil || id == uuid.Max {
		return nil
	}

	turned := id
	slices.Reverse(turned[:4])
	slices.Reverse(turned[4:6])
	slices.Reverse(turned[6:8])

	return []string{id.String(), turned.String()}
}

// arch is the first entry of option 93, which is the architecture that boots,
// or else the one that option 60 names: "PXEClient:Arch:00007:UNDI:003016".
func arch(p *dhcpv4.DHCPv4, class string) iana.Arch {
	if field := p.Options.Get(dhcpv4.OptionClientSystemArchitectureType); len(field) >= 2 {
		return iana.Arch(binary.BigEndian.Uint16(field))
	}

	_, rest, _ := strings.Cut(class, ":Arch:")
	digits, _, _ := strings.Cut(rest, ":")
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return none
	}

	return iana.Arch(n)
}

// none is an architecture that boots nothing.
const none = iana.Arch(0xffff)
