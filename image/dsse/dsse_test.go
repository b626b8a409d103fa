package dsse_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"

	sslib "github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/loam-os/loam/image/dsse"
)

// newKey returns a key that is the same in each run.
func newKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

func id(ed25519.PublicKey) (string, error) { return "a key", nil }

func TestSigners(t *testing.T) {
	one, two, other := newKey(1), newKey(2), newKey(3)
	text, err := dsse.Sign("kind", []byte("payload"), id, one, two, one)
	if err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		name string
		edit func(e *dsse.Envelope)
		keys []ed25519.PublicKey
		want int
	}{
		{name: "no key", want: 0},
		{name: "one of the keys", keys: []ed25519.PublicKey{public(two)}, want: 1},
		{name: "both keys", keys: []ed25519.PublicKey{public(one), public(two)}, want: 2},
		{
			name: "a key that is given twice and has signed twice",
			keys: []ed25519.PublicKey{public(one), public(one)},
			want: 1,
		},
		{name: "another key", keys: []ed25519.PublicKey{public(other)}, want: 0},
		{name: "a key that is too short", keys: []ed25519.PublicKey{{1}}, want: 0},
		{
			name: "another payload",
			edit: func(e *dsse.Envelope) { e.Payload = []byte("Payload") },
			keys: []ed25519.PublicKey{public(one)},
			want: 0,
		},
		{
			name: "another type",
			edit: func(e *dsse.Envelope) { e.PayloadType = "other" },
			keys: []ed25519.PublicKey{public(one)},
			want: 0,
		},
		{
			name: "no signature",
			edit: func(e *dsse.Envelope) { e.Signatures = nil },
			keys: []ed25519.PublicKey{public(one)},
			want: 0,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, err := dsse.Parse(text, "kind")
			if err != nil {
				t.Fatal(err)
			}
			if test.edit != nil {
				test.edit(&e)
			}
			if got := e.Signers(test.keys...); len(got) != test.want {
				t.Errorf("%d signers, want %d", len(got), test.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	good, err := dsse.Sign("kind", []byte("payload"), id, newKey(1))
	if err != nil {
		t.Fatal(err)
	}
	many, err := json.Marshal(dsse.Envelope{
		PayloadType: "kind",
		Signatures:  make([]dsse.Signature, 17),
	})
	if err != nil {
		t.Fatal(err)
	}

	for name, text := range map[string]string{
		"another type":        strings.Replace(string(good), `"kind"`, `"other"`, 1),
		"an unknown field":    strings.Replace(string(good), `"payload":`, `"until": 1, "payload":`, 1),
		"two envelopes":       string(good) + string(good),
		"half an envelope":    string(good[:len(good)/2]),
		"no envelope":         "kind: Machine\n",
		"too many signatures": string(many),
	} {
		if _, err := dsse.Parse([]byte(text), "kind"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestOthersReadTheSameText: the encoding that is signed is the one of the
// protocol's own library.
func TestOthersReadTheSameText(t *testing.T) {
	for _, payload := range []string{"", "payload", "a\nb ü"} {
		e := dsse.Envelope{PayloadType: "application/x", Payload: []byte(payload)}
		if want := sslib.PAE(e.PayloadType, e.Payload); !bytes.Equal(e.PAE(), want) {
			t.Errorf("%q, want %q", e.PAE(), want)
		}
	}
}
