package source_test

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/dsse"
)

// newKey returns a key that is the same in each run.
func newKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

// trusted returns the public keys, as a kernel command line has them.
func trusted(keys ...crypto.Signer) string {
	var all trust.Keys
	for _, key := range keys {
		all = append(all, key.Public().(ed25519.PublicKey))
	}
	return all.String()
}

func signed(t *testing.T, text string, serial uint64, keys ...crypto.Signer) string {
	t.Helper()
	out, err := trust.Sign([]byte(text), serial, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestOnlySignedDocumentsCount once keys are trusted. Each row is one document
// on the ESP, on a node that has accepted another one, or none.
func TestOnlySignedDocumentsCount(t *testing.T) {
	image, own, other := newKey(1), newKey(2), newKey(3)
	accepted := func(text string, serial uint64, keys ...crypto.Signer) *source.Accepted {
		a := source.Accept(source.Document{
			Text:         []byte(text),
			SignedSerial: serial,
			Verified:     true,
		}, strings.FieldsFunc(trusted(keys...), func(r rune) bool { return r == ',' }))
		return &a
	}
	var envelope dsse.Envelope
	if err := json.Unmarshal([]byte(signed(t, "first", 9, own)), &envelope); err != nil {
		t.Fatal(err)
	}
	envelope.Payload = bytes.Replace(envelope.Payload, []byte("first"), []byte("third"), 1)
	changed, err := json.Marshal(envelope)
	if err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		name     string
		document string
		image    []crypto.Signer
		before   *source.Accepted
		want     string // the text that counts
		serial   uint64
		wantErr  string
	}{
		{name: "no keys, and no signature", document: "first", want: "first"},
		{
			name:     "no keys, and a signature that cannot be verified",
			document: signed(t, "first", 4, other),
			want:     "first",
			serial:   4,
		},
		{
			name:     "no keys, and any document after a signed one",
			document: "second",
			before:   accepted("first", 4),
			want:     "second",
		},
		{
			name:     "a key of the image, first boot, and no signature",
			document: "first",
			image:    []crypto.Signer{image},
			wantErr:  "is not signed, and this node takes only signed documents",
		},
		{
			name:     "a key of the image, first boot, and its signature",
			document: signed(t, "first", 1, image),
			image:    []crypto.Signer{image},
			want:     "first",
			serial:   1,
		},
		{
			name:     "a key of the image, first boot, and another signature",
			document: signed(t, "first", 1, other),
			image:    []crypto.Signer{image},
			wantErr:  "is signed by no key that this node trusts, or was changed since",
		},
		{
			name:     "an image that has got a key, and the document from before",
			document: "first",
			image:    []crypto.Signer{image},
			before:   accepted("first", 0),
			want:     "first",
		},
		{
			name:     "own keys, and the same document without a signature",
			document: "first",
			before:   accepted("first", 0, own),
			want:     "first",
		},
		{
			name:     "own keys, and another document without a signature",
			document: "second",
			before:   accepted("first", 0, own),
			wantErr:  "is not signed, and this node takes only signed documents",
		},
		{
			name:     "own keys, and their signature",
			document: signed(t, "second", 1, own),
			before:   accepted("first", 0, own),
			want:     "second",
			serial:   1,
		},
		{
			name:     "two signatures, one of them by a trusted key",
			document: signed(t, "second", 1, other, own),
			before:   accepted("first", 0, own),
			want:     "second",
			serial:   1,
		},
		{
			name:     "a key of the image counts beside own keys",
			document: signed(t, "second", 1, image),
			image:    []crypto.Signer{image},
			before:   accepted("first", 0, own),
			want:     "second",
			serial:   1,
		},
		{
			name:     "the same serial, and the same document",
			document: signed(t, "first", 5, own),
			before:   accepted("first", 5, own),
			want:     "first",
			serial:   5,
		},
		{
			name:     "the same document with a higher serial",
			document: signed(t, "first", 6, own),
			before:   accepted("first", 5, own),
			want:     "first",
			serial:   6,
		},
		{
			name:     "the same serial, and another document",
			document: signed(t, "second", 5, own),
			before:   accepted("first", 5, own),
			wantErr:  "has serial 5, and this node has accepted serial 5 before",
		},
		{
			name:     "an older serial",
			document: signed(t, "second", 4, own),
			before:   accepted("first", 5, own),
			wantErr:  "has serial 4, and this node has accepted serial 5 before",
		},
		{
			name:     "a body that was changed",
			document: string(changed),
			before:   accepted("first", 5, own),
			wantErr:  "is signed by no key that this node trusts, or was changed since",
		},
		{
			name:     "half a document",
			document: signed(t, "second", 6, own)[:100],
			before:   accepted("first", 5, own),
			wantErr:  "signed machine.yaml: unexpected EOF",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			env := source.Env{
				ESP:      fakeESP{"/loam/machine.yaml": test.document},
				Accepted: test.before,
			}
			if keys := trusted(test.image...); keys != "" {
				env.Cmdline = "quiet loam.trust=" + keys
			}

			doc, err := source.Find(t.Context(), env)
			if string(doc.Text) != test.want || doc.SignedSerial != test.serial {
				t.Errorf("%q with serial %d, want %q with %d",
					doc.Text, doc.SignedSerial, test.want, test.serial)
			}
			if (err == nil) != (test.wantErr == "") {
				t.Fatalf("%v, want %q", err, test.wantErr)
			}
			if err != nil && (!strings.HasPrefix(err.Error(), "ESP file /loam/machine.yaml") ||
				!strings.Contains(err.Error(), test.wantErr) ||
				!strings.Contains(hint.Of(err), "loamctl machine sign")) {
				t.Errorf("%s", hint.Text(err))
			}
		})
	}
}

// TestEveryPlaceNeedsASignature, also what a hypervisor hands over.
func TestEveryPlaceNeedsASignature(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "given"), "text")
	write(t, filepath.Join(dir, "loam.machine"), "text")
	write(t, filepath.Join(dir, "opt/loam/machine.yaml/raw"), "text")

	for name, env := range map[string]source.Env{
		"the kernel command line":  {Cmdline: " loam.config=file:" + file},
		"a credential":             {Credentials: dir},
		"fw_cfg":                   {FirmwareConfig: dir},
		"where it started from":    {Given: file},
		"the ESP":                  {ESP: fakeESP{"/loam/machine.yaml": "text"}},
		"a file of the ESP":        {Cmdline: " loam.config=esp:/a", ESP: fakeESP{"/a": "text"}},
		"machine.yaml of a drive":  {Drives: on(fakeDrive{"machine.yaml": "text"})},
		"the user-data of a drive": {Drives: on(fakeDrive{"user-data": "#loam\n"})},
	} {
		if _, err := source.Find(t.Context(), env); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		env.Cmdline = "loam.trust=" + trusted(newKey(1)) + env.Cmdline
		if _, err := source.Find(t.Context(), env); fault.Of(err) != fault.MachineNotTrusted {
			t.Errorf("%s: %v", name, err)
		}
		env.Cmdline = "loam.trust=damaged" + env.Cmdline
		if _, err := source.Find(t.Context(), env); err == nil {
			t.Errorf("%s: counts though the key is damaged", name)
		}
	}
}

// TestASignedDriveIsRead: its user-data may be signed, a host name beside it is
// not, and a drive without a serial number can bring another document.
func TestASignedDriveIsRead(t *testing.T) {
	key := newKey(1)
	drive := fakeDrive{
		"user-data": signed(t, "first", 1, key),
		"meta-data": "local-hostname: other\n",
	}
	env := source.Env{Cmdline: "loam.trust=" + trusted(key), Drives: on(drive)}
	doc, err := source.Find(t.Context(), env)
	if err != nil || string(doc.Text) != "first" || doc.Hostname != "" {
		t.Fatalf("%q, host name %q, %v", doc.Text, doc.Hostname, err)
	}

	a := source.Accept(doc, nil)
	drive["user-data"] = signed(t, "second", 2, key)
	env.Accepted = &a
	again, err := source.Find(t.Context(), env)
	if err != nil || string(again.Text) != "second" {
		t.Errorf("%q, %v", again.Text, err)
	}

	if kept, err := a.Document(); err != nil || string(kept.Text) != "first" {
		t.Errorf("kept %q, %v", kept.Text, err)
	}
}

// TestNoCopyIsKeptWithoutKeys: machine.yaml may have secrets.
func TestNoCopyIsKeptWithoutKeys(t *testing.T) {
	doc, err := source.Find(t.Context(), source.Env{ESP: fakeESP{"/loam/machine.yaml": "first"}})
	if err != nil {
		t.Fatal(err)
	}
	a := source.Accept(doc, nil)
	if kept, err := a.Document(); !errors.Is(err, source.ErrNone) {
		t.Errorf("%q, %v", kept.Text, err)
	}
}
