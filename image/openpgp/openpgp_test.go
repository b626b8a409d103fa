package openpgp

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/test/judge"
)

var errNobody = errors.New("nobody is here")

func nobody(string) ([]byte, error) { return nil, errNobody }

// long has gpg do something long ago.
const long = "--faked-system-time 20250101T000000! "

// made has gpg make a key long ago, change it by more commands, which name it
// KEY, and write its two halves.
func made(t *testing.T, algorithm, passphrase string, changes ...string) (private, public string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgp") // t.TempDir is too long for the socket of gpg's agent.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	private = filepath.Join(dir, "private")
	public = filepath.Join(dir, "public")
	gpg := func(args ...string) {
		judge.Run(t, "gpg",
			append([]string{
				"--homedir", dir, "--batch", "--pinentry-mode", "loopback",
				"--passphrase", passphrase,
			}, args...)...)
	}

	gpg(strings.Fields(long + "--quick-generate-key test " + algorithm + " sign never")...)
	gpg("--output", public, "--export", "test")

	keys, err := read(public)
	if err != nil {
		t.Fatal(err)
	}

	for _, change := range changes {
		gpg(
			strings.Fields(strings.ReplaceAll(change, "KEY",
				fmt.Sprintf("%X", keys[0].PrimaryKey.Fingerprint)))...,
		)
	}

	gpg("--output", private, "--export-secret-keys", "test")
	gpg("--yes", "--output", public, "--armor", "--export", "test")
	return private, public
}

func TestGPGVerifiesWhatIsSigned(t *testing.T) {
	for _, tc := range []struct {
		name, algorithm string
		changes         []string
	}{
		{"ed25519", "ed25519", nil},
		{"rsa2048", "rsa2048", nil},
		{
			"a key that is to expire later than it was",
			"ed25519",
			[]string{"--quick-set-expire KEY 5y"},
		},
		{
			"a subkey that is to",
			"ed25519",
			[]string{long + "--quick-add-key KEY ed25519 sign 2y", "--quick-set-expire KEY 5y *"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			private, public := made(t, tc.algorithm, "", tc.changes...)
			key, err := ReadKey(private, time.Now(), nobody)
			if err != nil {
				t.Fatal(err)
			}

			text := []byte("text\n")
			signature, err := key.Sign(text)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := key.Sign(text); err != nil || !bytes.Equal(again, signature) {
				t.Errorf("signed again, it is another: %v", err)
			}

			if by, err := Verify(public, text, signature, time.Now()); err != nil ||
				by != fmt.Sprintf("%X", key.entity.PrimaryKey.Fingerprint) {
				t.Errorf("by %s: %v", by, err)
			}

			if id, err := Signer(signature); err != nil || !strings.HasSuffix(key.String(), id) {
				t.Errorf("key ID %s: %v", id, err)
			}
			if _, err := Verify(public, []byte("Text\n"), signature, time.Now()); err == nil {
				t.Error("of another text")
			}

			dir := filepath.Dir(private)
			for name, content := range map[string][]byte{
				"text":     text,
				"other":    []byte("Text\n"),
				"text.gpg": signature,
			} {
				if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}

			for name, want := range map[string]bool{"text": true, "other": false} {
				out, err := judge.Try(t, "gpg", "--homedir", dir, "--batch", "--verify",
					filepath.Join(dir, "text.gpg"), filepath.Join(dir, name))
				if (err == nil) != want {
					t.Errorf("gpg about %s: %v\n%s", name, err, out)
				}
			}
		})
	}
}

func TestKeysThatDoNotDoAreRefused(t *testing.T) {
	curve, _ := made(t, "nistp256", "")
	locked, public := made(t, "ed25519", "secret")

	noKey := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(noKey, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, tc := range []struct{ name, file, err string }{
		{"a public key", public, "want one private OpenPGP key"},
		{"ECDSA", curve, "take one of RSA or Ed25519"},
		{"a passphrase that nobody knows", locked, errNobody.Error()},
		{"no key", noKey, "no OpenPGP keys"},
		{"no file", noKey + "-", "no such file"},
	} {
		_, err := ReadKey(tc.file, time.Now(), nobody)
		if err == nil || !strings.Contains(hint.Text(err), tc.err) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}

	_, err := ReadKey(locked, time.Now(), func(string) ([]byte, error) {
		return []byte("secret"), nil
	})
	if err != nil {
		t.Errorf("with its passphrase: %v", err)
	}
}

// TestAFileMayHaveTheKeysOfMany, each armored by itself, as `cat` puts them
// together.
func TestAFileMayHaveTheKeysOfMany(t *testing.T) {
	_, other := made(t, "ed25519", "")
	private, public := made(t, "ed25519", "")
	var keys []byte
	for _, file := range []string{other, public} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, text...)
	}

	all := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(all, keys, 0o600); err != nil {
		t.Fatal(err)
	}

	key, err := ReadKey(private, time.Now(), nobody)
	if err != nil {
		t.Fatal(err)
	}

	signature, err := key.Sign([]byte("text\n"))
	if err != nil {
		t.Fatal(err)
	}

	by, err := Verify(all, []byte("text\n"), signature, time.Now())
	if err != nil || by != key.String() {
		t.Errorf("by %s: %v", by, err)
	}
}
