package cluster

import (
	"crypto/x509"
	"encoding/pem"
	"testing"
)

func TestServersAreKnownByAllTheirNames(t *testing.T) {
	ca := must(newAuthority("test"))(t)
	der, _ := pem.Decode([]byte(must(ca.server("kubernetes"))(t).cert))
	cert, err := x509.ParseCertificate(der.Bytes)
	if err != nil {
		t.Fatal(err)
	}

	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)

	for _, name := range []string{
		"127.0.0.1", "::1", "10.0.2.2", "fec0::2", "10.96.0.1", "fd00:10:96::1", "localhost",
		"kubernetes.default.svc",
	} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
