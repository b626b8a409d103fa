package main

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/inspect"
)

// A node of an image with keys takes no machine.yaml that none of them has signed:
// whoever flashes the disk hears of it, not who starts the machine.
func TestADiskGetsNoMachineYAMLThatItsNodeWouldRefuse(t *testing.T) {
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}

	const text = "apiVersion: loam.dev/v1alpha1\nkind: Machine\n"
	signed := func(key ed25519.PrivateKey) string {
		text, err := trust.Sign([]byte(text), 1, key)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}

	const without = "console=ttyS0"
	with := without + " loam.trust=" + trust.Keys{public}.String()
	for _, test := range []struct{ name, cmdline, text, want string }{
		{"an image without keys", without, text, ""},
		{"a signed one for an image without keys", without, signed(key), ""},
		{"signed by the key of the image", with, signed(key), ""},
		{"not signed", with, text, "m is not signed"},
		{"signed by another", with, signed(other), "m is signed by no key that this node trusts"},
	} {
		err := notTrusted([]inspect.UKI{{Cmdline: test.cmdline}}, "m", []byte(test.text))
		if (test.want == "") != (err == nil) ||
			(err != nil && !strings.Contains(hint.Text(err), test.want)) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}
