package ownerkey

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/partitions/verity"
	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/keys"
)

func TestASignedRootHashCanBeVerified(t *testing.T) {
	pair := keys.New(t, "one")
	key, err := Open(pair.KeyFile, pair.CertificateFile, Tokens{})
	if err != nil {
		t.Fatal(err)
	}

	hash := [32]byte{1, 2, 3}
	content, err := RootHash(key, hash)
	if err != nil {
		t.Fatal(err)
	}
	if len(content)%verity.BlockSize != 0 {
		t.Errorf("%d bytes", len(content))
	}

	sig, err := verity.ParseSignature(content)
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	der := filepath.Join(dir, "signature")
	text := filepath.Join(dir, "hash")
	if err := os.WriteFile(der, sig.Signature, 0o644); err != nil {
		t.Fatal(err)
	}

	for want, content := range map[bool]string{
		true:  hex.EncodeToString(hash[:]),
		false: strings.Repeat("0", 64),
	} {
		if err := os.WriteFile(text, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := judge.Try(t, "openssl", "smime", "-verify", "-binary", "-inform", "der", "-in",
			der, "-content", text, "-certfile", pair.CertificateFile, "-nointern", "-noverify")
		if (err == nil) != want {
			t.Errorf("openssl about %.8s…: %v\n%s", content, err, out)
		}
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	one := keys.New(t, "one")
	other := keys.New(t, "other")
	none := filepath.Join(t.TempDir(), "none")

	for _, tc := range []struct{ name, key, certificate, err string }{
		{"no such key", none, one.CertificateFile, "no such file"},
		{
			"a certificate for a key",
			one.CertificateFile,
			one.CertificateFile,
			"want a PEM file with a PRIVATE KEY",
		},
		{"a key for a certificate", one.KeyFile, one.KeyFile, "want a PEM file with a CERTIFICATE"},
		{"no such certificate", one.KeyFile, none, "no such file"},
		{
			"a certificate of another key",
			one.KeyFile,
			other.CertificateFile,
			other.CertificateFile + `: certificate "CN=other": it belongs to another key`,
		},
	} {
		_, err := Open(tc.key, tc.certificate, Tokens{})
		if err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// TestAKeyForPCR11 is one that every TPM supports.
func TestAKeyForPCR11(t *testing.T) {
	if key, err := OpenPCR(keys.New(t, "pcr").KeyFile); err != nil || key == nil {
		t.Errorf("RSA of 2048 bits: %v, %v", key, err)
	}

	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenPCR(keys.Write(t, "curve", curve).KeyFile)
	if err == nil || !strings.Contains(err.Error(), "want an RSA key of 2048 bits") {
		t.Errorf("an elliptic curve: %v", err)
	}
}
