package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"
)

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string // of cert
}

// pair is a certificate and its key, PEM.
type pair struct{ cert, key string }

func newAuthority(t testing.TB, name string) authority {
	t.Helper()
	key := newKey(t)
	template := valid(x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	})
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatalf("certificate of %s: %v", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("certificate of %s: %v", name, err)
	}
	return authority{cert: cert, key: key, pem: block("CERTIFICATE", der)}
}

// client issues what says that its bearer is user, of those groups.
func (a authority) client(t testing.TB, user string, groups ...string) pair {
	t.Helper()
	return a.issue(t, x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// server issues a certificate for what listens on loopback, under the names
// that this host and a guest know it by.
func (a authority) server(t testing.TB, name string) pair {
	t.Helper()
	template := x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    []string{"localhost", name, name + ".default", name + ".default.svc"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range []network{ipv4, ipv6} {
		_, services, err := net.ParseCIDR(n.services)
		if err != nil {
			t.Fatal(err)
		}
		first := services.IP // the address of the service "kubernetes" is the first of the range
		first[len(first)-1]++
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(n.loopback), net.ParseIP(n.fromGuest), first)
	}
	return a.issue(t, template)
}

func (a authority) issue(t testing.TB, template x509.Certificate) pair {
	t.Helper()
	key := newKey(t)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, valid(template), a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatalf("certificate of %s: %v", template.Subject, err)
	}
	return pair{cert: block("CERTIFICATE", der), key: keyText(t, key)}
}

// valid is from yesterday, because a guest's clock may be behind.
func valid(template x509.Certificate) *x509.Certificate {
	now := time.Now()
	template.SerialNumber = big.NewInt(now.UnixNano())
	template.NotBefore, template.NotAfter = now.AddDate(0, 0, -1), now.AddDate(1, 0, 0)
	return &template
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func keyText(t testing.TB, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(fmt.Errorf("key: %w", err))
	}
	return block("EC PRIVATE KEY", der)
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
