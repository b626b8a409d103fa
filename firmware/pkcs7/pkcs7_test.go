package pkcs7_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/asn1"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/firmware/pkcs7"
	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/keys"
)

func TestOpensslVerifiesWhatIsDetached(t *testing.T) {
	key := keys.New(t, "one")
	content := []byte("content")
	dir := t.TempDir()

	signed, err := key.Detached(content)
	if err != nil {
		t.Fatal(err)
	}

	again, err := key.Detached(content)
	if err != nil || !bytes.Equal(signed, again) {
		t.Errorf("signed again, it is another: %v", err)
	}

	signed, err = pkcs7.Wrap(signed)
	if err != nil {
		t.Fatal(err)
	}

	signature := filepath.Join(dir, "signature")
	text := filepath.Join(dir, "content")
	if err := os.WriteFile(signature, signed, 0o600); err != nil {
		t.Fatal(err)
	}

	args := []string{
		"smime", "-verify", "-binary", "-inform", "der", "-in", signature, "-content", text,
		"-certfile", key.CertificateFile, "-nointern", "-noverify",
	}

	for what, want := range map[string]bool{"content": true, "Content": false} {
		if err := os.WriteFile(text, []byte(what), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := judge.Try(t, "openssl", args...)
		if (err == nil) != want {
			t.Errorf("openssl about %q: %v\n%s", what, err, out)
		}
	}
}

func TestVerifySaysWhoHasSigned(t *testing.T) {
	key := keys.New(t, "one")
	kind := asn1.ObjectIdentifier{1, 2, 3}
	attached, errAttached := key.Attached(kind, []byte("\x30\x07content"))
	detached, errDetached := key.Detached([]byte("content"), key.Certificate)
	if errAttached != nil || errDetached != nil {
		t.Fatal(errAttached, errDetached)
	}

	for _, tc := range []struct {
		name   string
		signed []byte
		err    string
	}{
		{"as it was", attached, ""},
		{
			"other content",
			bytes.Replace(attached, []byte("content"), []byte("Content"), 1),
			"the signer's message digest is",
		},
		{
			"another certificate",
			bytes.Replace(attached, key.Certificate.Raw, keys.New(t, "two").Certificate.Raw, 1),
			"the certificate of the signer is not in it",
		},
		{"no content", detached, "PKCS #7: content"},
		{"bytes within it", append(bytes.Clone(attached), 0), "signed data: 1 bytes after its end"},
		{"what is none", []byte("\x30\x00"), "PKCS #7: signed data"},
	} {
		der, err := pkcs7.Wrap(tc.signed)
		if err != nil {
			t.Fatal(err)
		}

		sd, rest, err := pkcs7.Parse(append(der, "rest"...))
		var chain [][]byte
		if err == nil {
			chain, err = sd.Verify()
		}

		switch {
		case tc.err != "":
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: error %v, want %q", tc.name, err, tc.err)
			}
		case err != nil || len(chain) != 1 || !bytes.Equal(chain[0], key.Certificate.Raw) ||
			string(rest) != "rest" || !sd.Content.Type.Equal(kind):
			t.Errorf("%s: %d certificates, type %v, %q follow, %v",
				tc.name, len(chain), sd.Content.Type, rest, err)
		}
	}
}

func TestKeysThatFirmwareDoesNotVerifyAreRefused(t *testing.T) {
	short, errShort := rsa.GenerateKey(rand.Reader, 1024) // to be refused
	curve, errCurve := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if errShort != nil || errCurve != nil {
		t.Fatal(errShort, errCurve)
	}

	one := keys.New(t, "one")
	two := keys.New(t, "two")
	for _, tc := range []struct {
		name string
		of   keys.Pair
		key  crypto.Signer
		err  string
	}{
		{"RSA of 1024 bits", keys.Write(t, "short", short), short, "want an RSA key of 2048 bits"},
		{"an elliptic curve", keys.Write(t, "curve", curve), curve, "want an RSA key"},
		{"a certificate of another key", one, two.Private, "it belongs to another key"},
	} {
		_, err := pkcs7.NewSigner(tc.of.Certificate, tc.key)
		if err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// broken signs with zeros.
type broken struct{ crypto.Signer }

func (broken) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return make([]byte, 256), nil
}

func TestASignatureThatIsNotTheCertificatesIsRefused(t *testing.T) {
	one := keys.New(t, "one")
	s, err := pkcs7.NewSigner(one.Certificate, broken{one.Private})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Detached([]byte("content")); err == nil ||
		!strings.Contains(err.Error(), `sign by "CN=one": the signature belongs to another key`) {
		t.Error(err)
	}
}
