package openpgp

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/test/judge"
)

var errNobody = errors.New("nobody is here")

func nobody(string) ([]byte, error) { return nil, errNobody }

// made has gpg make a key, and writes its two halves.
func made(t *testing.T, algorithm, passphrase string) (private, public string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgp") // t.TempDir is too long for the socket of gpg's agent.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	private, public = filepath.Join(dir, "private"), filepath.Join(dir, "public")
	gpg := func(args ...string) {
		judge.Run(t, "gpg", append([]string{"--homedir", dir, "--batch", "--pinentry-mode", "loopback", "--passphrase", passphrase}, args...)...)
	}
	gpg("--quick-generate-key", "test", algorithm, "sign", "never")
	gpg("--output", private, "--export-secret-keys", "test")
	gpg("--output", public, "--armor", "--export", "test")
	return private, public
}

func TestGPGVerifiesWhatIsSigned(t *testing.T) {
	for _, algorithm := range []string{"ed25519", "rsa2048"} {
		t.Run(algorithm, func(t *testing.T) {
			private, public := made(t, algorithm, "")
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
			if by, err := Verify(public, text, signature, time.Now()); err != nil || by != key.String() {
				t.Errorf("by %s: %v", by, err)
			}
			if id, err := Signer(signature); err != nil || !strings.HasSuffix(key.String(), id) {
				t.Errorf("key ID %s: %v", id, err)
			}
			if _, err := Verify(public, []byte("Text\n"), signature, time.Now()); err == nil {
				t.Error("of another text")
			}
			dir := filepath.Dir(private)
			for name, content := range map[string][]byte{"text": text, "other": []byte("Text\n"), "text.gpg": signature} {
				if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for name, want := range map[string]bool{"text": true, "other": false} {
				out, err := judge.Try(t, "gpg", "--homedir", dir, "--batch", "--verify", filepath.Join(dir, "text.gpg"), filepath.Join(dir, name))
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
		if _, err := ReadKey(tc.file, time.Now(), nobody); err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if _, err := ReadKey(locked, time.Now(), func(string) ([]byte, error) { return []byte("secret"), nil }); err != nil {
		t.Errorf("with its passphrase: %v", err)
	}
}
