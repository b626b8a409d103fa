package pki

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Authority issues certificates.
type Authority struct {
	Certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Times are the times that decide how long a certificate is valid.
type Times struct {
	// Built is the date of the image's kernel (clock.Built). Certificates are
	// valid from then on.
	Built time.Time
	// Now is the time of the clock, from which lifetimes count. It is not before
	// Built (clock.Credible).
	Now time.Time
}

// Text returns the certificate as PEM.
func (a Authority) Text() []byte { return certText(a.Certificate.Raw) }

// newAuthority makes an authority, with the text of its certificate and its key.
func newAuthority(name string, times Times) (cert, key []byte, err error) {
	private, err := newKey()
	if err != nil {
		return nil, nil, err
	}

	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             times.Built,
		NotAfter:              times.Now.Add(authorityTime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}

	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, fmt.Errorf("issue the certificate of %s: %w", name, err)
	}

	key, err = keyText(private)
	return certText(der), key, err
}

// Issue returns a certificate for a leaf and its new key, as PEM.
func (a Authority) Issue(leaf Leaf, times Times) ([]byte, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}

	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: leaf.User, Organization: leaf.Groups},
		NotBefore:    times.Built,
		NotAfter:     times.Now.Add(cmp.Or(leaf.Lifetime, leafTime)),
		DNSNames:     leaf.Names,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  leaf.usage(),
	}
	for _, address := range leaf.Addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(address.AsSlice()))
	}

	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("issue the certificate %s: %w", leaf.Name, err)
	}

	text, err := keyText(key)
	return append(certText(der), text...), err
}

// parseAuthority reads what newAuthority returned.
func parseAuthority(cert, key []byte) (Authority, error) {
	block, _ := pem.Decode(cert)
	if block == nil {
		return Authority{}, errors.New("the certificate is not PEM")
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return Authority{}, err
	}

	private, err := parseKey(key)
	if err != nil {
		return Authority{}, err
	}
	if !private.PublicKey.Equal(parsed.PublicKey) {
		return Authority{}, errors.New("the certificate has another key")
	}
	return Authority{parsed, private}, nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the key is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}

	private, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the key is a %T, want ECDSA", key)
	}
	return private, nil
}

// serial returns a random serial number of 127 bits, which is not zero.
func serial() *big.Int {
	var bytes [16]byte
	_, _ = rand.Read(bytes[:]) // It never fails (crypto/rand).
	bytes[0] = bytes[0]&0x7f | 0x40
	return new(big.Int).SetBytes(bytes[:])
}

func certText(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyText(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func publicText(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}
