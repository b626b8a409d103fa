package live

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// server is where machine.yaml of the tests comes from.
const server = "http://192.0.2.1:8080"

// signer returns a key that is the same in each run, and the kernel parameter
// for it.
func signer(seed byte) (key ed25519.PrivateKey, parameter string) {
	key = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	return key, " loam.trust=" + trust.FormatKey(key.Public().(ed25519.PublicKey))
}

func parse(t *testing.T, words string) Params {
	t.Helper()
	p, err := ParseParams("roothash=" + strings.Repeat("ab", 32) + words)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestNobodyOnTheNetworkWipesADisk, unless a key of the image has signed that.
func TestNobodyOnTheNetworkWipesADisk(t *testing.T) {
	key, trusted := signer(1)
	signed, err := trust.Sign([]byte("kind: Machine\n"), 1, key)
	if err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		name, words, wipe string
		text              []byte
		refused           bool
	}{
		{name: "over the network", wipe: "S1", refused: true},
		{name: "over the network, onto an empty disk"},
		{
			name:    "over the network, with a signature that nothing verifies",
			text:    signed,
			wipe:    "S1",
			refused: true,
		},
		{name: "over the network, signed", words: trusted, text: signed, wipe: "S1"},
		{name: "from a USB installer", words: " loam.from=stick", wipe: "S1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := parse(t, test.words)
			d, err := p.verify(test.text, server)
			if err != nil {
				t.Fatal(err)
			}

			err = p.mayWipe(machine.Install{Wipe: test.wipe}, d)
			if errors.Is(err, errUnauthenticated) != test.refused || (err != nil) != test.refused {
				t.Fatalf("%v", err)
			}
			if test.refused && (!strings.HasPrefix(hint.Text(err),
				"wipe-not-authenticated: machine.yaml from "+server+" ") ||
				!strings.Contains(hint.Text(err), "\nhint: use a USB installer")) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestOnlyASignedDocumentIsTaken by an image that has a key, also from a USB
// installer.
func TestOnlyASignedDocumentIsTaken(t *testing.T) {
	key, trusted := signer(1)
	other, _ := signer(2)
	sign := func(by ed25519.PrivateKey) []byte {
		text, err := trust.Sign([]byte("kind: Machine\n"), 1, by)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}

	for _, test := range []struct {
		name, words   string
		text          []byte
		taken         bool
		authenticated bool
	}{
		{name: "no key", text: []byte("kind: Machine\n"), taken: true},
		{
			name:          "no key, from a USB installer",
			words:         " loam.from=stick",
			text:          []byte("kind: Machine\n"),
			taken:         true,
			authenticated: true,
		},
		{
			name:          "a key, and its signature",
			words:         trusted,
			text:          sign(key),
			taken:         true,
			authenticated: true,
		},
		{name: "a key, and another signature", words: trusted, text: sign(other)},
		{name: "a key, and no signature", words: trusted, text: []byte("kind: Machine\n")},
		{
			name:  "a key, and no signature, from a USB installer",
			words: " loam.from=stick" + trusted,
			text:  []byte("kind: Machine\n"),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := parse(t, test.words)
			d, err := p.verify(test.text, server)
			if (err == nil) != test.taken {
				t.Fatalf("%v", err)
			}
			if err != nil && (fault.Of(err) != fault.MachineNotTrusted ||
				!strings.HasPrefix(err.Error(), "machine.yaml from "+server+" is ")) {
				t.Errorf("%v", err)
			}
			if test.taken && string(d.Text) != "kind: Machine\n" {
				t.Errorf("%q", d.Text)
			}
			if test.taken && (p.authenticate(d) == nil) != test.authenticated {
				t.Errorf("authenticated: %v", p.authenticate(d))
			}
		})
	}

	if _, err := ParseParams("roothash=" + strings.Repeat("ab", 32) + " loam.trust=x"); err == nil {
		t.Error("started with a damaged key")
	}
}
