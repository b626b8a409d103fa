package authenticode

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/test/judge"
)

// selfSigned writes a key and its certificate, as PEM.
func selfSigned(t *testing.T, name string) (key, cert string) {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}

	c := x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}

	der, err := x509.CreateCertificate(rand.Reader, &c, &c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}

	base := filepath.Join(t.TempDir(), name)
	for suffix, b := range map[string]*pem.Block{
		".key": {Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)},
		".pem": {Type: "CERTIFICATE", Bytes: der},
	} {
		if err := os.WriteFile(base+suffix, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	return base + ".key", base + ".pem"
}

// TestSignaturesOfOtherToolsAreRead: what sbsign and systemd-sbsign sign is read as
// they have signed it.
func TestSignaturesOfOtherToolsAreRead(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain.efi")
	if err := os.WriteFile(plain, stripped(t), 0o600); err != nil {
		t.Fatal(err)
	}

	key, cert := selfSigned(t, "one")
	key2, cert2 := selfSigned(t, "two")
	by := plain + ".sbsign"
	bySystemd := plain + ".systemd"
	twice := plain + ".twice"
	judge.Run(t, "sbsign", "--key", key, "--cert", cert, "--output", by, plain)
	judge.Run(t, "systemd-sbsign", "sign", "--private-key="+key, "--certificate="+cert,
		"--output="+bySystemd, plain)
	judge.Run(t, "sbsign", "--key", key2, "--cert", cert2, "--output", twice, by)

	for name, want := range map[string][][]string{
		plain:     nil,
		by:        {{"one"}},
		bySystemd: {{"one"}},
		twice:     {{"one"}, {"two"}},
	} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}

		im, err := read(b)
		diff := cmp.Diff(want, subjects(t, im))
		if err != nil || diff != "" || im.SHA256 != signedDigest {
			t.Errorf("%s: digest %s, %v\n%s", filepath.Base(name), im.SHA256, err, diff)
		}
	}

	judge.Run(t, "sbverify", "--cert", cert2, twice)
}

// TestTheDigestOfARealUKI: pesign and hash-to-efi-sig-list come to the same,
// before and after it is signed.
func TestTheDigestOfARealUKI(t *testing.T) {
	ukis, err := filepath.Glob(filepath.Join(judge.Dir(t, "LOAM_BUILD"), "*.efi"))
	if err != nil || len(ukis) == 0 {
		t.Fatal(ukis, err)
	}

	key, cert := selfSigned(t, "one")
	signed := filepath.Join(t.TempDir(), "signed.efi")
	judge.Run(t, "systemd-sbsign", "sign", "--private-key="+key, "--certificate="+cert,
		"--output="+signed, ukis[0])
	for name, signatures := range map[string]int{ukis[0]: 0, signed: 1} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}

		im, err := read(b)
		if err != nil || len(im.Signatures) != signatures {
			t.Fatalf("%d signatures: %v", len(im.Signatures), err)
		}

		for _, out := range []string{
			judge.Run(t, "pesign", "-h", "-i", name),
			judge.Run(t, "hash-to-efi-sig-list", name, filepath.Join(t.TempDir(), "list")),
		} {
			if !strings.Contains(out, im.SHA256) {
				t.Errorf("digest %s, not %s", im.SHA256, out)
			}
		}
	}
}
