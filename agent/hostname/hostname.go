// Package hostname derives host names from properties of a machine. They are in
// lower case, as in RFC 1123, section 2.1.
//
// A host name is only derived while the node has none, and networkd must not
// set it.
package hostname

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"
)

const label = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`

var (
	name   = regexp.MustCompile(`^` + label + `(\.` + label + `)*$`)
	others = regexp.MustCompile(`[^a-z0-9]+`)
)

// Max is the longest value of a label of Kubernetes, which the kubelet makes of the name.
// Linux allows one byte more. maxLabel is the longest part of a name.
const (
	Max      = 63
	maxLabel = 63
)

// IsName reports whether text consists of labels; its length does not matter.
func IsName(text string) bool { return name.MatchString(text) }

// Valid reports whether text can be the name of a machine: it is what Parse
// makes of it.
func Valid(text string) bool {
	name, err := Parse(text)
	return err == nil && name == text
}

// Parse returns the name of a machine for a name from any source: a DHCP server,
// meta-data, machine.yaml. It is in lower case and without a dot at its end. Of
// a name that is too long it is the first part, as systemd takes it
// (shorten_overlong in its src/basic/hostname-util.c), within a label of DNS.
func Parse(given string) (string, error) {
	text := strings.ToLower(strings.TrimSuffix(strings.TrimSpace(given), "."))
	if !fits(text) {
		text, _, _ = strings.Cut(text, ".")
		text = strings.TrimRight(text[:min(len(text), maxLabel)], "-")
	}

	_, err := netip.ParseAddr(text)
	switch {
	case !IsName(text):
		return "", errors.New("a name has letters and digits, with dashes and dots between them")
	case isLocalhost(text):
		return "", errors.New("every machine is called so")
	case err == nil || numbers.MatchString(text):
		return "", errors.New("it is an address")
	}
	return text, nil
}

// fits reports whether the name and its labels are short enough.
func fits(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if len(part) > maxLabel {
			return false
		}
	}
	return len(text) <= Max
}

// numbers matches the short forms of IPv4 addresses with dots (inet_aton(3)).
var numbers = regexp.MustCompile(`^\d+(\.\d+){1,3}$`)

// isLocalhost reports whether the name is that of the loopback interface
// (RFC 6761, section 6.3), with or without localdomain.
func isLocalhost(text string) bool {
	name := strings.TrimSuffix(text, ".localdomain")
	first, _, _ := strings.Cut(name, ".")
	return first == "localhost" || strings.HasSuffix(name, ".localhost")
}

// prefix keeps a name of only digits from being parsed as an address
// (inet_aton(3)).
const prefix = "loam-"

// fillers are the placeholders of boards without a serial number, in the form
// that OfSerial gives them.
var fillers = map[string]bool{
	"to-be-filled-by-o-e-m": true, "default-string": true, "system-serial-number": true,
	"serial-number": true, "none": true, "null": true,
	"not-specified": true, "not-applicable": true, "not-available": true, "n-a": true, "na": true,
	"unknown": true, "invalid": true, "oem": true, "o-e-m": true,
	"0123456789": true, "123456789": true, "1234567890": true, "1234567": true, "12345678": true,
	"xxxxxxxxxx": true,
}

// OfSerial returns the host name for the serial number of a machine, "" if it
// is unusable.
func OfSerial(serial string) string {
	text := strings.Trim(others.ReplaceAllString(strings.ToLower(serial), "-"), "-")
	if fillers[text] || strings.Trim(text, text[:min(1, len(text))]+"-") == "" { // 00000000
		return ""
	}
	text = prefix + text
	return strings.TrimRight(text[:min(len(text), maxLabel)], "-")
}

// OfMAC returns the host name for the MAC address of a network interface.
func OfMAC(mac net.HardwareAddr) string { return fmt.Sprintf("%s%x", prefix, []byte(mac)) }
