package credentials

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// Credentials are a client certificate and its key, as PEM.
type Credentials struct {
	Certificate, Key []byte
	NotBefore        time.Time
	NotAfter         time.Time
}

// RenewAt returns when to request the next certificate: after 0.8 to 0.88 of
// the lifetime. part, in [0, 1), spreads the requests of many nodes.
func (c Credentials) RenewAt(part float64) time.Time {
	life := c.NotAfter.Sub(c.NotBefore)
	return c.NotBefore.Add(time.Duration(float64(life) * (0.8 + 0.08*part)))
}

// newKey returns a new private key as PEM (RFC 5915).
func newKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("parse the key: not PEM")
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the key: %w", err)
	}
	return key, nil
}

// pair returns a certificate with its key, both PEM.
func pair(certificate, key []byte) (Credentials, error) {
	// A certificate of another key would fail every connection.
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return Credentials{}, fmt.Errorf("parse the certificate: %w", err)
	}

	return Credentials{
		Certificate: certificate,
		Key:         key,
		NotBefore:   pair.Leaf.NotBefore,
		NotAfter:    pair.Leaf.NotAfter,
	}, nil
}
