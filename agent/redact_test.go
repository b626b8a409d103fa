package agent

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/reset"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/keys"
)

// TestTheTokenStaysUntilThereIsACertificate, and only that on the ESP goes.
func TestTheTokenStaysUntilThereIsACertificate(t *testing.T) {
	const token = "abcdef.0123456789abcdef"
	ca := pem.EncodeToMemory(&pem.Block{
		Type:  "CERTIFICATE",
		Bytes: keys.New(t, "ca").Certificate.Raw,
	})
	text := fmt.Appendf(nil, "apiVersion: loam.dev/v1alpha1\nkind: Machine\nsource: {cluster: "+
		"{server: 'https://a', ca: %q, secret: s, bootstrapToken: %s}}\n", ca, token)

	n := unidentified(t)
	n.onESP(t, text)

	doc := source.Document{Name: "machine.yaml", Text: text, Kind: source.FromESP}
	if got := n.redact(t, doc); !bytes.Equal(got.Text, text) {
		t.Errorf("without a certificate:\n%s", got.Text)
	}

	join(t, n)
	doc.Kind = source.FromDrive
	if got := n.redact(t, doc); !bytes.Equal(got.Text, text) {
		t.Errorf("on a drive:\n%s", got.Text)
	}

	doc.Kind = source.FromESP
	for name, signed := range map[string]source.Document{
		"signed":                        {SignedSerial: 1},
		"accepted in place of a signed": {Verified: true},
	} {
		signed.Name, signed.Text, signed.Kind = doc.Name, doc.Text, doc.Kind
		if got := n.redact(t, signed); !bytes.Equal(got.Text, text) {
			t.Errorf("%s:\n%s", name, got.Text)
		}
	}

	got := n.redact(t, doc)
	found, err := source.Find(t.Context(),
		source.Env{ESP: source.Partition{Device: n.record.ESP}})
	if err != nil || !bytes.Equal(found.Text, got.Text) || bytes.Contains(got.Text, []byte(token)) {
		t.Errorf("%v:\n%s", err, found.Text)
	}
}

// redact takes the token out of a document of the node, without a warning.
func (n *testNode) redact(t *testing.T, doc source.Document) source.Document {
	t.Helper()
	redacted, err := n.identity().Redact(doc)
	if err != nil {
		t.Error(err)
	}
	return redacted
}

// onESP gives a node an ESP with that machine.yaml.
func (n *testNode) onESP(t *testing.T, text []byte) {
	t.Helper()
	n.record.ESP = filepath.Join(t.TempDir(), "esp")
	const size = 528 << 20
	f, err := os.Create(n.record.ESP)
	if err == nil {
		err = errors.Join(f.Truncate(size), esp.Write(f, size, 512, 1,
			[]esp.File{{Path: "loam/machine.yaml", Data: text}}), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAResetHoldsAfterTheTokenIsTakenOut, also if both are of the same run of the agent.
func TestAResetHoldsAfterTheTokenIsTakenOut(t *testing.T) {
	ca := pem.EncodeToMemory(&pem.Block{
		Type:  "CERTIFICATE",
		Bytes: keys.New(t, "ca").Certificate.Raw,
	})
	n := unidentified(t)
	n.onESP(t, fmt.Appendf(nil, "apiVersion: loam.dev/v1alpha1\nkind: Machine\nhostname: a\n"+
		"source: {cluster: {server: 'https://a', ca: %q, secret: s, bootstrapToken: "+
		"abcdef.0123456789abcdef}}\n", ca))
	join(t, n)
	now := n.startWithDrives(t)
	if now.cluster == nil {
		t.Fatalf("%+v", now.status.Error)
	}

	if err := now.reset.Begin(); err != nil {
		t.Fatal(err)
	}
	begun, err := n.root.ReadFile(reset.RecordName)
	if err != nil {
		t.Fatal(err)
	}
	files.Write(t, filepath.Join(n.Root, reset.RecordName),
		strings.Replace(string(begun), `"done":false`, `"done":true`, 1))
	if again := n.startWithDrives(t); !again.reset.Active() || again.status.Hostname != "a" {
		t.Errorf("the reset is over: %+v", again.status.Error)
	}
}

// join gives a node a certificate of its cluster.
func join(t *testing.T, n *testNode) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pair := keys.Write(t, "node", key)
	var who credentials.Credentials
	if who.Certificate, err = os.ReadFile(pair.CertificateFile); err != nil {
		t.Fatal(err)
	}
	if who.Key, err = os.ReadFile(pair.KeyFile); err != nil {
		t.Fatal(err)
	}
	err = credentials.Open(n.root).Save(credentials.Target{Server: "https://a"}, who)
	if err != nil {
		t.Fatal(err)
	}
}
