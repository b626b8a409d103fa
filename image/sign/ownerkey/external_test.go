package ownerkey

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/keys"
)

// newKey returns a key that is the same in each run.
func newKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestACommandSigns(t *testing.T) {
	key := newKey(1)
	message := []byte("a message\n")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "targets"), ed25519.Sign(key, message))
	t.Chdir(dir)

	for _, test := range []struct{ name, key, by, err string }{
		{name: "good", key: "targets", by: `cat >got; cat "$LOAM_KEY"`},
		{name: "a key that it does not have", key: "root-1", by: `cat "$LOAM_KEY"`,
			err: "sign with the key root-1: command"},
		{name: "something else", key: "targets", by: "echo hello",
			err: "6 bytes that are not a signature by it"},
		{name: "nothing", key: "targets", by: "true", err: "0 bytes that are not"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := &External{By: test.by}
			k, err := e.Key(test.key, public(key))
			if err != nil {
				t.Fatal(err)
			}

			sig, err := k.Sign(nil, message, crypto.Hash(0))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil || !ed25519.Verify(public(key), message, sig) {
				t.Errorf("%x, %v", sig, err)
			}
			if got, err := os.ReadFile("got"); err != nil || !bytes.Equal(got, message) {
				t.Errorf("the command got %q, %v", got, err)
			}
		})
	}
}

// A command that signs with another key would make what no node takes.
func TestASignatureByAnotherKeyIsRefused(t *testing.T) {
	message := []byte("a message\n")
	file := filepath.Join(t.TempDir(), "signature")
	write(t, file, ed25519.Sign(newKey(2), message))

	k, err := (&External{By: "cat " + file}).Key("targets", public(newKey(1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Sign(nil, message, crypto.Hash(0)); fault.Of(err) != fault.KeyUnfit ||
		!strings.Contains(hint.Text(err), "hint: is it the private key of targets.pem?") {
		t.Errorf("%v", err)
	}
}

func TestEd25519KeysInAToken(t *testing.T) {
	asFile := func(key ed25519.PrivateKey) keys.Pair {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "key.pem")
		write(t, file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
		return keys.Pair{KeyFile: file}
	}

	tokens := inToken(t, asFile(newKey(1)), asFile(newKey(2))) // db and spare
	asked := 0
	tokens.PIN = func(string) ([]byte, error) { asked++; return []byte("5678"), nil }
	e := &External{By: "pkcs11:token=loam?module-path=" + softHSM, Tokens: tokens}
	message := bytes.Repeat([]byte("a message\n"), 10000)

	for name, key := range map[string]ed25519.PrivateKey{"db": newKey(1), "spare": newKey(2)} {
		k, err := e.Key(name, public(key))
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKIXPublicKey(public(key))
		if err != nil {
			t.Fatal(err)
		}
		want := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		if text, err := e.Public(name); err != nil || !bytes.Equal(text, want) {
			t.Errorf("%s: %s, %v", name, text, err)
		}

		sig, err := k.Sign(nil, message, crypto.Hash(0))
		if err != nil || !bytes.Equal(sig, ed25519.Sign(key, message)) {
			t.Errorf("%s: %x, %v", name, sig, err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times for the PIN", asked)
	}

	one := &External{By: "pkcs11:token=loam;object=spare?module-path=" + softHSM, Tokens: tokens}
	for _, test := range []struct {
		name string
		key  ed25519.PrivateKey
		err  string
	}{
		{name: "the key that the URI names", key: newKey(2)},
		{name: "another one", key: newKey(1), err: "64 bytes that are not a signature by it"},
	} {
		k, err := one.Key("machine", public(test.key))
		if err != nil {
			t.Fatal(err)
		}
		_, err = k.Sign(nil, message, crypto.Hash(0))
		if (test.err == "" && err != nil) ||
			(test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err))) {
			t.Errorf("%s: %v", test.name, err)
		}
	}

	closed := &External{By: e.By, Tokens: tokens}
	closed.PIN = func(string) ([]byte, error) { return nil, errors.New("nobody is here") }
	k, err := closed.Key("db", public(newKey(1)))
	if err == nil {
		_, err = k.Sign(nil, message, crypto.Hash(0))
	}
	if err == nil || !strings.Contains(err.Error(), "nobody is here") {
		t.Errorf("without a PIN: %v", err)
	}
}
