package cluster

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newTestStore returns the store of an empty node.
func newTestStore(t *testing.T) (k credentialStore, dir string) {
	t.Helper()
	dir = t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })

	return newCredentialStore(root), dir
}

// place writes a file of the node.
func place(t *testing.T, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
		os.WriteFile(name, []byte(text), 0o600))
	if err != nil {
		t.Fatal(err)
	}
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
			if err := k.saveCredentials(Config{Server: "https://a"}, test.who); err != nil {
				t.Fatal(err)
			}
			if who, ok := k.credentials(); ok != test.want || ok && who.NotAfter.IsZero() {
				t.Errorf("%v, good until %s", ok, who.NotAfter)
			}
		})
	}

	t.Run("beside a token that cannot be read", func(t *testing.T) {
		place(t, dir, tokenName+"/a", "")
		if err := k.saveCredentials(Config{}, one); err != nil {
			t.Fatal(err)
		}

		token, err := k.token()
		if err == nil || token != "" || !strings.Contains(err.Error(), "read the bootstrap token") {
			t.Errorf("token %q, %v", token, err)
		}

		if _, ok := k.credentials(); !ok {
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

	if err := k.saveCredentials(Config{Server: "https://a"}, certified(t)); err != nil {
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
	place(t, dir, kubeletDir, "")
	if err := k.writeKubeletBootstrap(Config{}, "token"); err == nil ||
		!strings.Contains(err.Error(), "give the kubelet the bootstrap token") {
		t.Error(err)
	}
}

func TestNameOfTheSecretIsSaved(t *testing.T) {
	for _, test := range []struct{ name, file, configured, want string }{
		{"none", "", "pool", "pool"},
		{"the label's", "label\npool\n", "pool", "label"},
		{"the label's, and another is configured since", "label\npool\n", "new", "new"},
		{"the label's, by an older agent", "label\n", "pool", "label"},
		{"an invalid name", "Not A\nName", "pool", "pool"},
		{"an invalid name, with the same configuration", "Not A\npool\n", "pool", "pool"},
		{"a path", "../a\n", "pool", "pool"},
	} {
		t.Run(test.name, func(t *testing.T) {
			k, dir := newTestStore(t)
			if test.file != "" {
				place(t, dir, secretName, test.file)
			}
			if got := k.secret(test.configured); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}

	t.Run("as it was saved", func(t *testing.T) {
		k, _ := newTestStore(t)
		if err := k.saveSecret("label", "pool"); err != nil || k.secret("pool") != "label" ||
			k.secret("new") != "new" {
			t.Errorf("%q and %q, %v", k.secret("pool"), k.secret("new"), err)
		}
		if err := k.saveSecret("No_Name", "pool"); err == nil || k.secret("pool") != "label" {
			t.Errorf("%q, %v", k.secret("pool"), err)
		}
	})
}

func TestCorruptRecordIsAnError(t *testing.T) {
	k, dir := newTestStore(t)
	if _, ok, err := k.record(); ok || err != nil {
		t.Errorf("none: %v %v", ok, err)
	}

	place(t, dir, recordName, `{"done":{"os":"1.0`)
	_, ok, err := k.record()
	if ok || err == nil ||
		!strings.HasPrefix(err.Error(), "/var/lib/loam/inplace.json is damaged: ") {
		t.Errorf("%v %v", ok, err)
	}
}
