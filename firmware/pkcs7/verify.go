package pkcs7

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
)

// Parse parses the result of Wrap, and returns the bytes that follow it.
func Parse(der []byte) (sd SignedData, rest []byte, err error) {
	var info ContentInfo
	rest, err = asn1.Unmarshal(der, &info)
	switch {
	case err != nil:
		return sd, nil, fmt.Errorf("PKCS #7: %w", err)
	case !info.Type.Equal(oidSignedData):
		return sd, nil, fmt.Errorf("PKCS #7: content type %v, not signed data", info.Type)
	}

	more, err := asn1.Unmarshal(info.Content.Bytes, &sd)
	switch {
	case err != nil:
		return sd, nil, fmt.Errorf("PKCS #7: signed data: %w", err)
	case len(more) > 0:
		return sd, nil, fmt.Errorf("PKCS #7: signed data: %d bytes after its end", len(more))
	case len(sd.Signers) != 1 || sd.Signers[0].ID.Serial == nil:
		return sd, nil, fmt.Errorf("PKCS #7: %d signers, want 1", len(sd.Signers))
	}

	return sd, rest, nil
}

// Verify checks that a certificate in the message signed the content, and
// returns this certificate (DER) and its chain. It ignores validity periods, as
// firmware does.
func (sd SignedData) Verify() (chain [][]byte, err error) {
	content, err := untagged(sd.Content.Content.Bytes)
	if err != nil {
		return nil, err
	}

	certs, err := x509.ParseCertificates(sd.Certificates.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}

	s := sd.Signers[0]
	at := slices.IndexFunc(certs, func(c *x509.Certificate) bool {
		return c.SerialNumber.Cmp(s.ID.Serial) == 0 &&
			bytes.Equal(c.RawIssuer, s.ID.Issuer.FullBytes)
	})
	if at < 0 {
		return nil, errors.New("the certificate of the signer is not in it")
	}
	if err := s.verify(certs[at], content); err != nil {
		return nil, err
	}

	return upFrom(certs[at], certs), nil
}

// verify makes sure that a certificate's key has signed the content.
func (s signerInfo) verify(by *x509.Certificate, content []byte) error {
	if !s.Digest.Algorithm.Equal(SHA256.Algorithm) {
		return fmt.Errorf("the signer's digest algorithm %v, want SHA-256", s.Digest.Algorithm)
	}

	signed := content
	if len(s.Attributes.FullBytes) > 0 {
		sum := sha256.Sum256(content)
		have, err := s.messageDigest()
		if err != nil {
			return fmt.Errorf("the signer's message digest: %w", err)
		}
		if !bytes.Equal(have, sum[:]) {
			return fmt.Errorf("the signer's message digest is %x, the content has %x", have, sum)
		}

		signed = slices.Clone(s.Attributes.FullBytes)
		signed[0] = 0x31 // They are signed as the SET they are.
	}

	algorithm := x509.SHA256WithRSA
	if by.PublicKeyAlgorithm == x509.ECDSA {
		algorithm = x509.ECDSAWithSHA256
	}

	if err := by.CheckSignature(algorithm, signed, s.Signature); err != nil {
		return fmt.Errorf("it is not by %s: %w", by.Subject, err)
	}

	return nil
}

// messageDigest returns the attribute messageDigest.
func (s signerInfo) messageDigest() (sum []byte, err error) {
	for rest := s.Attributes.Bytes; len(rest) > 0; {
		var a attribute
		rest, err = asn1.Unmarshal(rest, &a)
		if err != nil {
			return nil, err
		}
		if a.Type.Equal(oidMessageDigest) {
			if len(a.Values) != 1 {
				return nil, fmt.Errorf("%d values", len(a.Values))
			}
			_, err = asn1.Unmarshal(a.Values[0].FullBytes, &sum)
			return sum, err
		}
	}
	return nil, errors.New("not present")
}

// upFrom returns a certificate and its chain of issuers.
func upFrom(c *x509.Certificate, all []*x509.Certificate) [][]byte {
	found := []*x509.Certificate{c}
	for i := 0; i < len(found); i++ {
		for _, up := range all {
			if Issued(up, found[i]) && !slices.ContainsFunc(found, up.Equal) {
				found = append(found, up)
			}
		}
	}

	var der [][]byte
	for _, f := range found {
		der = append(der, f.Raw)
	}

	return der
}

// Issued reports whether a certificate belongs to an authority and has signed
// another certificate, at any time.
func Issued(by, c *x509.Certificate) bool {
	return bytes.Equal(by.RawSubject, c.RawIssuer) && (by.IsCA || by.Version < 3) &&
		by.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}
