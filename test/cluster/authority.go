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

func newAuthority(name string) (authority, error) {
	key, err := newKey()
	if err != nil {
		return authority{}, err
	}

	template := valid(x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	})

	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return authority{}, fmt.Errorf("certificate of %s: %w", name, err)
	}

	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return authority{}, fmt.Errorf("certificate of %s: %w", name, err)
	}

	return authority{cert: cert, key: key, pem: block("CERTIFICATE", der)}, nil
}

// client issues what says that its bearer is user, of those groups.
func (a authority) client(user string, groups ...string) (pair, error) {
	return a.issue(x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// server issues a certificate for what listens on loopback, under the names
// that this host and a guest know it by.
func (a authority) server(name string) (pair, error) {
	template := x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    []string{"localhost", name, name + ".default", name + ".default.svc"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}

	for _, n := range []network{ipv4, ipv6} {
		_, services, err := net.ParseCIDR(n.services)
		if err != nil {
			return pair{}, err
		}

		first := services.IP // the address of the service "kubernetes" is the first of the range
		first[len(first)-1]++
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(n.loopback),
			net.ParseIP(n.fromGuest), first)
	}

	return a.issue(template)
}

func (a authority) issue(template x509.Certificate) (pair, error) {
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}

	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, valid(template), a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("certificate of %s: %w", template.Subject, err)
	}

	text, err := keyText(key)
	return pair{cert: block("CERTIFICATE", der), key: text}, err
}

// valid is from yesterday, because a guest's clock may be behind.
func valid(template x509.Certificate) *x509.Certificate {
	now := time.Now()
	template.SerialNumber = big.NewInt(now.UnixNano())
	template.NotBefore = now.AddDate(0, 0, -1)
	template.NotAfter = now.AddDate(1, 0, 0)
	return &template
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func keyText(key *ecdsa.PrivateKey) (string, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("key: %w", err)
	}
	return block("EC PRIVATE KEY", der), nil
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
