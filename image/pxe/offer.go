package pxe

import (
	"errors"
	"fmt"
	"net/netip"
)

// Offer is the answer to a machine.
type Offer struct {
	// Class is option 60, which has to begin as the machine's own.
	Class string

	// File is option 67: a name for TFTP, or a URL.
	File string

	// Disk makes the machine start from its own disk. A machine without an
	// answer waits for minutes.
	Disk bool
}

// ErrBIOS is a reason to offer nothing.
var ErrBIOS = errors.New("its firmware starts as a BIOS, Loam by UEFI: " +
	"switch that on in its setup, or start iPXE")

// goOnPath is where nothing is, so that HTTP boot of firmware ends at once.
const goOnPath = "/v1/disk"

// Offers are what this server has for machines.
type Offers struct {
	// URL is where this server is, without a slash at the end.
	URL string
	// Builds are by architecture.
	Builds map[string]*Build
	// Neighbour returns the MAC of an address on this server's link, "" if it is
	// unknown. A machine there that claims to be another gets nothing. nil if
	// relays answer for machines, so that MACs prove nothing.
	Neighbour func(netip.Addr) string
}

// BootFiles are the URLs, by who is to get them, that the network's own server
// has to give where none can answer beside it: DHCPv6 (option 59, RFC 5970) has
// no ProxyDHCP.
func (o Offers) BootFiles() map[string]string {
	files := map[string]string{
		"user class iPXE":                     o.URL + ScriptPath,
		"user class that begins " + loamClass: o.URL, // asked by init-live
	}
	for arch, build := range o.Builds {
		files["UEFI HTTP boot, "+arch] = o.URL + "/" + build.Path(UKI)
	}
	return files
}

// For decides what r gets.
func (o Offers) For(r Request, installed bool) (Offer, error) {
	build, ok := o.Builds[r.Arch]
	switch {
	case r.Kind == Init:
		// It runs already: to ask for a file of its own build is up to it.
		return Offer{Class: loamClass, File: o.URL}, nil
	case r.Kind == IPXE:
		// the script knows
		return Offer{Class: pxeClass, File: o.URL + ScriptPath, Disk: installed}, nil
	case r.Kind == BIOS:
		return Offer{}, ErrBIOS
	case installed && r.Kind == HTTPBoot:
		return Offer{Class: httpClass, File: o.URL + goOnPath, Disk: true}, nil
	case installed:
		return Offer{Class: pxeClass, Disk: true}, nil
	case !ok:
		return Offer{}, fmt.Errorf("no build for %s here", r.Arch)
	case r.Kind == HTTPBoot:
		return Offer{Class: httpClass, File: o.URL + "/" + build.Path(UKI)}, nil
	}

	return Offer{Class: pxeClass, File: build.Path(UKI)}, nil
}
