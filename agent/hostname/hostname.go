// Package hostname derives host names from properties of a machine. They are in
// lower case, as in RFC 1123, section 2.1.
//
// A host name is only derived while the node has none, and networkd must not
// set it.
package hostname

import (
	"fmt"
	"net"
	"regexp"
	"strings"
)

const label = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`

var (
	name   = regexp.MustCompile(`^` + label + `(\.` + label + `)*$`)
	others = regexp.MustCompile(`[^a-z0-9]+`)
)

// Max is HOST_NAME_MAX of Linux, maxLabel the longest part of a name.
const (
	Max      = 64
	maxLabel = 63
)

// IsName reports whether text consists of labels; its length does not matter.
func IsName(text string) bool { return name.MatchString(text) }

// Valid reports whether text can be the name of a machine.
func Valid(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if len(part) > maxLabel {
			return false
		}
	}
	return len(text) <= Max && IsName(text)
}

// OfDHCP returns the host name for the name from a DHCP server.
func OfDHCP(given string) (string, error) {
	text := strings.ToLower(strings.TrimSuffix(given, "."))
	if first, _, _ := strings.Cut(text, "."); !Valid(text) || first == "localhost" {
		return "", fmt.Errorf("host name %q of a DHCP server: no machine can be called so", given)
	}
	return text, nil
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
