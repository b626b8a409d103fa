// Package ownerkey has the keys of an image's owner: it reads them from files
// and tokens, signs root hashes with them, and makes the authenticated
// variables that enroll them in firmware.
//
// [Open] is the function to use first. With a key in a token (PKCS #11),
// openssl of the tools tree signs; it gets the PIN through a pipe.
package ownerkey

import (
	"crypto"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"strings"

	"github.com/loam-os/loam/firmware/pcrsig"
	"github.com/loam-os/loam/firmware/pkcs7"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/partitions/verity"
)

// Open reads a key and its certificate, a PEM file. The key is a PEM file (PKCS
// #8), or a PKCS #11 URI (RFC 7512), which names a key in a token.
func Open(key, certificate string, tokens Tokens) (pkcs7.Signer, error) {
	c, err := ReadCertificate(certificate)
	if err != nil {
		return pkcs7.Signer{}, err
	}

	var private crypto.Signer
	if InToken(key) {
		private, err = tokens.open(key, c)
	} else {
		private, err = readKey(key)
	}

	if err != nil {
		return pkcs7.Signer{}, err
	}

	s, err := pkcs7.NewSigner(c, private)
	if err != nil {
		return s, fmt.Errorf("%s: %w", certificate, err)
	}

	return s, nil
}

// InToken reports whether a key is named by the URI of a token, not by a file.
func InToken(key string) bool { return strings.HasPrefix(key, scheme) }

// ReadCertificate reads a PEM file, or one in DER, as vendors give theirs away.
func ReadCertificate(file string) (*x509.Certificate, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if c, err := x509.ParseCertificate(text); err == nil {
		return c, nil
	}

	der, err := decode(file, text, "CERTIFICATE")
	if err != nil {
		return nil, err
	}

	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}

	return c, nil
}

// OpenPCR reads a key for the policy of PCR 11 (firmware/pcrsig): a PEM file
// (PKCS #8).
func OpenPCR(file string) (crypto.Signer, error) {
	key, err := readKey(file)
	if err != nil {
		return nil, err
	}
	if _, err := pcrsig.CheckKey(key.Public()); err != nil {
		return nil, hint.With(fault.With(fmt.Errorf("%s: %w", file, err), fault.KeyUnfit),
			"`openssl genpkey -algorithm rsa -pkeyopt rsa_keygen_bits:2048 -out pcr.key` makes one")
	}
	return key, nil
}

func readKey(file string) (crypto.Signer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}

	der, err := decode(file, text, "PRIVATE KEY")
	if err != nil {
		return nil, err
	}

	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, hint.With(fmt.Errorf("%s: %w", file, err),
			"`openssl pkcs8 -topk8 -nocrypt -in %s` makes PKCS #8 of other forms", file)
	}

	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: a %T does not sign", file, key)
	}

	return signer, nil
}

// decode reads the one block of a PEM file, which is of that kind.
func decode(file string, text []byte, kind string) ([]byte, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != kind {
		return nil, hint.With(
			fault.With(fmt.Errorf("%s: want a PEM file with a %s", file, kind), fault.KeyUnfit),
			"`openssl req -x509 -newkey rsa:4096 -nodes -keyout key.pem -out "+
				"certificate.pem -subj /CN=loam -days 3650` makes both",
		)
	}
	return block.Bytes, nil
}

// RootHash makes the content of a verity-sig partition.
func RootHash(by pkcs7.Signer, hash [32]byte) ([]byte, error) {
	signed, err := by.Detached([]byte(hex.EncodeToString(hash[:])))
	if err == nil {
		signed, err = pkcs7.Wrap(signed)
	}
	if err != nil {
		return nil, fmt.Errorf("root hash: %w", err)
	}
	return verity.NewSignature(hash, by.Certificate.Raw, signed).Encode()
}
