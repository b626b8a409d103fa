package authenticode

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// The ASN.1 of PKCS #7 (RFC 2315) and of Authenticode.
type (
	contentInfo struct {
		Type    asn1.ObjectIdentifier
		Content asn1.RawValue `asn1:"explicit,optional,tag:0"`
	}
	signedData struct {
		Version      int
		Digests      []pkix.AlgorithmIdentifier `asn1:"set"`
		Content      contentInfo
		Certificates asn1.RawValue `asn1:"optional,tag:0"`
		CRLs         asn1.RawValue `asn1:"optional,tag:1"`
		Signers      []signerInfo  `asn1:"set"`
	}
	signerInfo struct {
		Version int
		ID      struct {
			Issuer asn1.RawValue
			Serial *big.Int
		}
		Digest     pkix.AlgorithmIdentifier
		Signed     asn1.RawValue `asn1:"optional,tag:0"`
		Encryption pkix.AlgorithmIdentifier
		Signature  []byte
		Unsigned   asn1.RawValue `asn1:"optional,tag:1"`
	}
	attribute struct {
		Type   asn1.ObjectIdentifier
		Values asn1.RawValue `asn1:"set"`
	}
	// indirectData is SpcIndirectDataContent.
	indirectData struct {
		Data   asn1.RawValue
		Digest struct {
			Algorithm pkix.AlgorithmIdentifier
			Sum       []byte
		}
	}
)

var (
	oidSignedData    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	oidIndirectData  = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 1, 4}
	oidMessageDigest = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 4}
	oidSHA256        = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}
)

// verify makes sure that a signature is over the digest of an image, and returns the certificate of its signer and those that lead
// up from it. When they are valid does not matter, as it does not to firmware.
func verify(der, digest []byte) ([][]byte, error) {
	sd, err := parseSigned(der)
	if err != nil {
		return nil, err
	}
	content, err := sd.over(digest)
	if err != nil {
		return nil, err
	}
	certs, err := x509.ParseCertificates(sd.Certificates.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	s := sd.Signers[0]
	at := slices.IndexFunc(certs, func(c *x509.Certificate) bool {
		return c.SerialNumber.Cmp(s.ID.Serial) == 0 && bytes.Equal(c.RawIssuer, s.ID.Issuer.FullBytes)
	})
	if at < 0 {
		return nil, errors.New("the certificate of the signer is not in it")
	}
	if err := s.verify(certs[at], content); err != nil {
		return nil, err
	}
	return chain(certs[at], certs), nil
}

// parseSigned reads a SignedData of one signer. The last bytes of an entry may be padding.
func parseSigned(der []byte) (sd signedData, err error) {
	var info contentInfo
	rest, err := asn1.Unmarshal(der, &info)
	switch {
	case err != nil:
		return sd, fmt.Errorf("PKCS #7: %w", err)
	case len(rest) > 7 || len(bytes.Trim(rest, "\x00")) > 0:
		return sd, fmt.Errorf("PKCS #7: %d bytes after its end", len(rest))
	case !info.Type.Equal(oidSignedData):
		return sd, fmt.Errorf("PKCS #7: content type %v, not signed data", info.Type)
	}
	if rest, err = asn1.Unmarshal(info.Content.Bytes, &sd); err != nil {
		return sd, fmt.Errorf("PKCS #7: signed data: %w", err)
	}
	if len(rest) > 0 || len(sd.Signers) != 1 || sd.Signers[0].ID.Serial == nil {
		return sd, fmt.Errorf("PKCS #7: %d signers, want 1", len(sd.Signers))
	}
	return sd, nil
}

// over is what is signed, if that is about an image of the digest.
func (sd signedData) over(digest []byte) ([]byte, error) {
	var seq asn1.RawValue
	var about indirectData
	if !sd.Content.Type.Equal(oidIndirectData) {
		return nil, fmt.Errorf("it signs content of type %v, not an image", sd.Content.Type)
	}
	if _, err := asn1.Unmarshal(sd.Content.Content.Bytes, &seq); err != nil {
		return nil, fmt.Errorf("SpcIndirectDataContent: %w", err)
	}
	if _, err := asn1.Unmarshal(seq.FullBytes, &about); err != nil {
		return nil, fmt.Errorf("SpcIndirectDataContent: %w", err)
	}
	switch d := about.Digest; {
	case !d.Algorithm.Algorithm.Equal(oidSHA256):
		return nil, fmt.Errorf("digest algorithm %v, want SHA-256", d.Algorithm.Algorithm)
	case !bytes.Equal(d.Sum, digest):
		return nil, fmt.Errorf("it is over an image of digest %x, this one has %x", d.Sum, digest)
	}
	return seq.Bytes, nil
}

// verify makes sure that a certificate's key has signed the content.
func (s signerInfo) verify(by *x509.Certificate, content []byte) error {
	if !s.Digest.Algorithm.Equal(oidSHA256) {
		return fmt.Errorf("the signer's digest algorithm %v, want SHA-256", s.Digest.Algorithm)
	}
	signed := content
	if len(s.Signed.FullBytes) > 0 {
		sum := sha256.Sum256(content)
		have, err := s.messageDigest()
		if err != nil {
			return fmt.Errorf("the signer's message digest: %w", err)
		}
		if !bytes.Equal(have, sum[:]) {
			return fmt.Errorf("the signer's message digest is %x, the content has %x", have, sum)
		}
		signed = slices.Clone(s.Signed.FullBytes)
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

// messageDigest is that attribute.
func (s signerInfo) messageDigest() (sum []byte, err error) {
	for rest := s.Signed.Bytes; len(rest) > 0; {
		var a attribute
		if rest, err = asn1.Unmarshal(rest, &a); err != nil {
			return nil, err
		}
		if a.Type.Equal(oidMessageDigest) {
			_, err = asn1.Unmarshal(a.Values.Bytes, &sum)
			return sum, err
		}
	}
	return nil, errors.New("there is none")
}

// chain is a certificate, and all that lead up from it.
func chain(c *x509.Certificate, all []*x509.Certificate) [][]byte {
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

// Issued reports whether a certificate is one of an authority, and has signed another, whenever that was.
func Issued(by, c *x509.Certificate) bool {
	return bytes.Equal(by.RawSubject, c.RawIssuer) && (by.IsCA || by.Version < 3) &&
		by.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}
