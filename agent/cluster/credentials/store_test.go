package credentials

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/test/files"
)

// newTestStore returns the store of an empty node.
func newTestStore(t *testing.T) (k Store, dir string) {
	t.Helper()
	root := files.Root(t)
	return Open(root), root.Name()
}

// certified returns a new key with a certificate for it.
func certified(t *testing.T) Credentials {
	t.Helper()
	text, err := newKey()
	if err != nil {
		t.Fatal(err)
	}

	key, err := parseKey(text)
	if err != nil {
		t.Fatal(err)
	}

	return Credentials{Certificate: certificateOf(t, key), Key: text}
}

func certificateOf(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestCredentialsNeedAMatchingKey(t *testing.T) {
	k, dir := newTestStore(t)
	one := certified(t)
	other := certified(t)
	for _, test := range []struct {
		name string
		who  Credentials
		want bool
	}{
		{"of one key", one, true},
		{"of two keys", Credentials{Certificate: one.Certificate, Key: other.Key}, false},
		{"without a key", Credentials{Certificate: one.Certificate}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := k.Save(Target{Server: "https://a"}, test.who); err != nil {
				t.Fatal(err)
			}
			if who, ok := k.Load(); ok != test.want || (ok && who.NotAfter.IsZero()) {
				t.Errorf("%v, good until %s", ok, who.NotAfter)
			}
		})
	}

	t.Run("beside a token that cannot be read", func(t *testing.T) {
		files.Write(t, filepath.Join(dir, tokenName+"/a"), "")
		if err := k.Save(Target{}, one); err != nil {
			t.Fatal(err)
		}

		token, err := k.Token()
		if err == nil || token != "" || !strings.Contains(err.Error(), "read the bootstrap token") {
			t.Errorf("token %q, %v", token, err)
		}

		if _, ok := k.Load(); !ok {
			t.Error("no credentials")
		}
	})
}

func TestJoined(t *testing.T) {
	k, _ := newTestStore(t)
	now := time.Now()
	if Joined(k.dir.Root(), now) {
		t.Error("an empty machine has joined")
	}

	if err := k.Save(Target{Server: "https://a"}, certified(t)); err != nil {
		t.Fatal(err)
	}
	if !Joined(k.dir.Root(), now) {
		t.Error("a machine with a certificate has not joined")
	}
	if Joined(k.dir.Root(), now.Add(2*time.Hour)) {
		t.Error("a machine whose certificate has expired has joined")
	}
}

func TestUnwritableKubeletDirectoryIsAnError(t *testing.T) {
	k, dir := newTestStore(t)
	files.Write(t, filepath.Join(dir, kubeletDir), "")
	if err := k.WriteKubeletBootstrap(Target{}, "token"); err == nil ||
		!strings.Contains(err.Error(), "give the kubelet the bootstrap token") {
		t.Error(err)
	}
}
