package luks

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/test/judge"
)

// image is a device that cryptsetup reads, too.
func image(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "container"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return f
}

// keyFile returns a file with a passphrase.
func keyFile(t *testing.T, passphrase string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, []byte(passphrase), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestCryptsetupReadsWhatWeWrite has cryptsetup open each key slot, name the
// volume key, and repair nothing.
func TestCryptsetupReadsWhatWeWrite(t *testing.T) {
	f := image(t)
	d, h, key := container(t, "first", "second")
	if err := h.SetToken(0, testToken{Type: "loam-test", Keyslots: []string{"1"}}); err != nil {
		t.Fatal(err)
	}
	if err := h.Write(d); err != nil {
		t.Fatal(err)
	}
	all := make([]byte, size)
	_, _ = d.ReadAt(all, 0)
	if _, err := f.WriteAt(all, 0); err != nil {
		t.Fatal(err)
	}

	for slot, passphrase := range []string{"first", "second"} {
		out := judge.Run(t, "cryptsetup", "open", "--test-passphrase", "--verbose", "--key-file",
			keyFile(t, passphrase), f.Name())
		want := fmt.Sprintf("Key slot %d unlocked.", slot)
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if out, err := judge.Try(t, "cryptsetup", "open", "--test-passphrase", "--key-file",
		keyFile(t, "third"), f.Name()); err == nil {
		t.Errorf("opened by another passphrase:\n%s", out)
	}

	out := judge.Run(t, "cryptsetup", "luksDump", "--batch-mode", "--dump-volume-key",
		"--key-file", keyFile(t, "first"), f.Name())
	if !strings.Contains(strings.Join(strings.Fields(out), ""), hex.EncodeToString(key)) {
		t.Errorf("the volume key is not %x:\n%s", key, out)
	}

	out = judge.Run(t, "cryptsetup", "luksDump", f.Name())
	for _, want := range []string{
		h.UUID.String(), "state", "loam-test", "aes-xts-plain64", "allow-discards",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}

	after := make([]byte, size)
	_, _ = f.ReadAt(after, 0)
	if !bytes.Equal(all[:DataOffset], after[:DataOffset]) {
		t.Error("cryptsetup has changed something")
	}
}

// TestWeReadWhatCryptsetupWrites, and change it.
func TestWeReadWhatCryptsetupWrites(t *testing.T) {
	for _, options := range [][]string{
		{"--pbkdf=argon2id", "--pbkdf-memory=64", "--pbkdf-force-iterations=4"},
		{"--pbkdf=argon2i", "--pbkdf-memory=64", "--pbkdf-force-iterations=4"},
		{"--pbkdf=pbkdf2", "--pbkdf-force-iterations=1000", "--hash=sha512", "--key-size=256"},
		{"--pbkdf=pbkdf2", "--pbkdf-force-iterations=1000", "--sector-size=512"},
		{"--pbkdf=pbkdf2", "--pbkdf-force-iterations=1000", "--luks2-metadata-size=64k"},
	} {
		f := image(t)
		first := keyFile(t, "first")
		judge.Run(t, "cryptsetup", append([]string{"luksFormat", "--type=luks2", "--batch-mode",
			"--key-file=" + first, f.Name()}, options...)...)

		h := read(t, f)
		key, _, err := h.Open(f, []byte("first"))
		if err != nil {
			t.Fatalf("%q: %v", options, err)
		}
		if _, _, err := h.Open(f, []byte("second")); err == nil {
			t.Errorf("%q: opened by another passphrase", options)
		}

		if _, err := h.AddSlot(f, key, []byte("second"), quick(), rand.Reader); err != nil {
			t.Fatal(err)
		}
		if err := h.RemoveSlot(f, 0); err != nil {
			t.Fatal(err)
		}
		if err := h.Write(f); err != nil {
			t.Fatal(err)
		}
		judge.Run(t, "cryptsetup", "open", "--test-passphrase", "--key-file",
			keyFile(t, "second"), f.Name())
		if _, err := judge.Try(t, "cryptsetup", "open", "--test-passphrase", "--key-file", first,
			f.Name()); err == nil {
			t.Errorf("%q: cryptsetup opens a key slot that was removed", options)
		}
	}
}

// TestUnsupportedContainers are refused, with what is unsupported.
func TestUnsupportedContainers(t *testing.T) {
	for want, options := range map[string][]string{
		"version 1": {"--type=luks1", "--pbkdf-force-iterations=1000"},
		"encryption": {"--type=luks2", "--pbkdf=pbkdf2", "--pbkdf-force-iterations=1000",
			"--cipher=aes-cbc-essiv:sha256"},
	} {
		f := image(t)
		judge.Run(t, "cryptsetup", append([]string{"luksFormat", "--batch-mode",
			"--key-file=" + keyFile(t, "first"), f.Name()}, options...)...)
		if _, err := Read(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
}
