package trust_test

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/judge"
)

const text = "apiVersion: loam.dev/v1alpha1\nkind: Machine\nhostname: <ü>\n"

// newKey returns a key that is the same in each run.
func newKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

func signed(t *testing.T, text string, serial uint64, keys ...crypto.Signer) []byte {
	t.Helper()
	out, err := trust.Sign([]byte(text), serial, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestOpen(t *testing.T) {
	d, err := trust.Open(signed(t, text, 7, newKey(1)))
	if err != nil || string(d.Text) != text || d.Serial != 7 {
		t.Fatalf("%q, serial %d, %v", d.Text, d.Serial, err)
	}
	for name, test := range map[string]struct {
		keys trust.Keys
		want bool
	}{
		"its key":                 {trust.Keys{public(newKey(1))}, true},
		"another key and its key": {trust.Keys{public(newKey(2)), public(newKey(1))}, true},
		"another key":             {trust.Keys{public(newKey(2))}, false},
		"no key":                  {nil, false},
	} {
		if got := d.SignedBy(test.keys); got != test.want {
			t.Errorf("signed by %s: %t", name, got)
		}
	}

	marked := append([]byte("\ufeff"), signed(t, text, 7, newKey(1))...)
	d, err = trust.Open(marked)
	if err != nil || string(d.Text) != text || d.Serial != 7 {
		t.Errorf("with the mark of an editor before it: %q, serial %d, %v", d.Text, d.Serial, err)
	}

	for name, plain := range map[string]string{
		"YAML": text,
		"JSON": `{"apiVersion": "loam.dev/v1alpha1", "kind": "Machine"}`,
		"JSON that has the word in a text": `{"kind": "Machine", "files": ` +
			`[{"content": "\"payloadType\""}]}`,
	} {
		d, err := trust.Open([]byte(plain))
		if err != nil || string(d.Text) != plain || d.Serial != 0 ||
			d.SignedBy(trust.Keys{public(newKey(1))}) {
			t.Errorf("%s: %q, serial %d, %v", name, d.Text, d.Serial, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	good := string(signed(t, text, 7, newKey(1)))
	for name, wrong := range map[string]string{
		"another type":  strings.Replace(good, "machine.v1", "permit.v1", 1),
		"half a text":   good[:len(good)-20],
		"serial 0":      string(signed(t, text, 0, newKey(1))),
		"another field": strings.Replace(good, `"payload":`, `"until": 1, "payload":`, 1),
		"no payload":    `{"payloadType": "application/vnd.loam.machine.v1+json"}`,
	} {
		if d, err := trust.Open([]byte(wrong)); fault.Of(err) != fault.DocumentInvalid {
			t.Errorf("%s: %q, %v", name, d.Text, err)
		}
	}
	if _, err := trust.Sign([]byte("\xff"), 1, newKey(1)); err == nil {
		t.Error("signed what JSON cannot hold")
	}
}

func TestKeysOfACommandLine(t *testing.T) {
	one, two := trust.FormatKey(public(newKey(1))), trust.FormatKey(public(newKey(2)))
	for _, test := range []struct {
		name, line, want string
		wrong            bool
	}{
		{name: "no parameter", line: "roothash=ab quiet"},
		{name: "one key", line: "quiet loam.trust=" + one, want: one},
		{name: "two keys", line: "loam.trust=" + one + "," + two + " quiet", want: one + "," + two},
		{
			name: "what others add does not count",
			line: "loam.trust=" + one + " loam.trust=" + two + " loam.trust=",
			want: one,
		},
		{name: "an empty one", line: "loam.trust=", wrong: true},
		{name: "one without a value", line: "loam.trust", wrong: true},
		{name: "half a key", line: "loam.trust=" + one[:40], wrong: true},
		{
			name:  "more than fit",
			line:  "loam.trust=" + strings.Repeat(one+",", trust.MaxKeys) + one,
			wrong: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			keys, err := trust.OfCmdline(test.line)
			if (err != nil) != test.wrong || keys.String() != test.want {
				t.Errorf("%s, %v", keys, err)
			}
		})
	}
}

// TestOpenSSLWritesTheSameKey: a key is a line of the file that openssl writes.
func TestOpenSSLWritesTheSameKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "machine.key")
	judge.Run(t, "openssl", "genpkey", "-algorithm", "ed25519", "-out", file)
	lines := strings.Split(judge.Run(t, "openssl", "pkey", "-in", file, "-pubout"), "\n")

	key, err := trust.ParseKey(lines[1])
	if err != nil || trust.FormatKey(key) != lines[1] {
		t.Errorf("%q: %v", lines, err)
	}
}

// FuzzOpen: whatever the bytes are, what a key has signed is what it signed.
func FuzzOpen(f *testing.F) {
	key := newKey(1)
	good, err := trust.Sign([]byte(text), 7, key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(text))
	f.Add([]byte(`{"payloadType": "application/vnd.loam.machine.v1+json", "payload": "e30="}`))

	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := trust.Open(b)
		if err == nil && d.SignedBy(trust.Keys{public(key)}) &&
			(string(d.Text) != text || d.Serial != 7) {
			t.Errorf("%q with serial %d is not what was signed", d.Text, d.Serial)
		}
		if err == nil && d.Serial == 0 && !bytes.Equal(d.Text, b) {
			t.Errorf("%q of %q", d.Text, b)
		}
	})
}
