package hostname_test

import (
	"net"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/hostname"
)

func TestOfSerial(t *testing.T) {
	for _, test := range []struct{ name, serial, want string }{
		{"a serial number", "S3Z8NB0K", "loam-s3z8nb0k"},
		{"of digits", "00012345", "loam-00012345"},
		{"as hypervisors write it", "VMware-56 4d 1a-b0/7", "loam-vmware-56-4d-1a-b0-7"},
		{"with blanks and dots around it", " .ABC. \n", "loam-abc"},
		{"of other letters", "Ä-42", "loam-42"},
		{"longer than a label", strings.Repeat("x1", 40), "loam-" + strings.Repeat("x1", 29)},
		{
			"cut at a dash",
			strings.Repeat("a1", 28) + "a-b",
			"loam-" + strings.Repeat("a1", 28) + "a",
		},
		{name: "nothing"},
		{"a filler", "To Be Filled By O.E.M.", ""},
		{"another", "System Serial Number", ""},
		{"one character again and again", "00000000", ""},
		{"the same with dashes", "FFFF-FFFF", ""},
		{"nothing but signs", "---", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := hostname.OfSerial(test.serial); got != test.want {
				t.Errorf("OfSerial(%q) = %q, want %q", test.serial, got, test.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	long := strings.Repeat("a", 60)
	for _, test := range []struct{ name, given, want string }{
		{"a name", "node-7", "node-7"},
		{"with its domain, and in capitals", "Node-7.Site.Example.", "node-7.site.example"},
		{"with blanks around it", "\tnode-7 \n", "node-7"},
		{"of digits", "0042", "0042"},
		{"that begins with a digit", "7node.10", "7node.10"},
		{"longer than a label of a Node takes", long + ".abc", long},
		{"of 69 bytes", "node-7." + strings.Repeat("site.", 12) + "ab", "node-7"},
		{"a label too long", strings.Repeat("a", 64), strings.Repeat("a", 63)},
		{"a long label with a domain", strings.Repeat("a", 70) + ".site", strings.Repeat("a", 63)},
		{"cut at a dash", strings.Repeat("a", 62) + "-" + "b", strings.Repeat("a", 62)},
		{"as long as a label of a Node takes", long + ".ab", long + ".ab"},
		{"near localhost", "localhosts.site", "localhosts.site"},
		{name: "nothing"},
		{name: "a dot", given: "."},
		{name: "two dots at the end", given: "node.."},
		{name: "every machine", given: "localhost"},
		{name: "every machine, with a domain", given: "localhost.localdomain"},
		{name: "every machine, in capitals", given: "LocalHost.Site."},
		{name: "a name of the loopback interface", given: "node.localhost"},
		{name: "an address", given: "10.0.0.7"},
		{name: "a short address", given: "10.7"},
		{name: "an address of IPv6", given: "fd00::1"},
		{name: "an underscore", given: "node_7"},
		{name: "a dash at the end", given: "node-"},
		{name: "two words", given: "node 7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := hostname.Parse(test.given)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("Parse(%q) = %q, %v, want %q", test.given, got, err, test.want)
			}
		})
	}
}

func TestOfMAC(t *testing.T) {
	got := hostname.OfMAC(net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x0f})
	if got != "loam-52540012340f" {
		t.Error(got)
	}
}

// FuzzNames checks that the name for any input is valid or empty.
func FuzzNames(f *testing.F) {
	f.Add("S3Z8NB0K")
	f.Add("To Be Filled By O.E.M.")
	f.Add("Node-7.Site.Example.")
	f.Fuzz(func(t *testing.T, text string) {
		if got := hostname.OfSerial(text); got != "" && !hostname.Valid(got) {
			t.Errorf("OfSerial(%q) = %q", text, got)
		}
		got, err := hostname.Parse(text)
		if err == nil && (!hostname.Valid(got) || got != strings.ToLower(got)) {
			t.Errorf("Parse(%q) = %q", text, got)
		}
	})
}
