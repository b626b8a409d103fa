// Package keys makes keys for tests.
package keys

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/loam-os/loam/firmware/pkcs7"
)

// Pair is a key and its certificate, which are in files, too.
type Pair struct {
	pkcs7.Signer
	Private                  crypto.Signer
	KeyFile, CertificateFile string
}

// New makes an RSA key whose certificate has that common name.
func New(t testing.TB, name string) Pair {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}

	p := Write(t, name, key)
	p.Signer, err = pkcs7.NewSigner(p.Certificate, key)
	if err != nil {
		t.Fatal(err)
	}

	return p
}

// Write writes a key and a certificate of it; nothing may be signed with it.
func Write(t testing.TB, name string, key crypto.Signer) Pair {
	t.Helper()
	base := filepath.Join(t.TempDir(), name)
	p := Pair{Private: key, KeyFile: base + ".key", CertificateFile: base + ".pem"}
	c := x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Unix(1.7e9, 0),
		NotAfter:     time.Unix(4e9, 0),
	}

	certificate, err := x509.CreateCertificate(rand.Reader, &c, &c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}

	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}

	p.Certificate, err = x509.ParseCertificate(certificate)
	for file, block := range map[string]*pem.Block{
		p.KeyFile:         {Type: "PRIVATE KEY", Bytes: private},
		p.CertificateFile: {Type: "CERTIFICATE", Bytes: certificate},
	} {
		err = errors.Join(err, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}

	return p
}
