// Package pkcs7 signs as firmware and kernel verify it: PKCS #7 SignedData (RFC 2315) of one signer, RSA and SHA-256. No time is in it, so that
// what is signed twice by one key is the same bytes.
package pkcs7

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
)

// Signer signs with one key.
type Signer struct {
	Certificate *x509.Certificate
	key         crypto.Signer
}

// minBits is what UEFI asks firmware to verify (UEFI 32.2.4: RSA 2048). It verifies nothing but RSA everywhere.
const minBits = 2048

// NewSigner makes one of a certificate and the key in it.
func NewSigner(certificate *x509.Certificate, key crypto.Signer) (Signer, error) {
	public, ok := certificate.PublicKey.(*rsa.PublicKey)
	if !ok || public.N.BitLen() < minBits {
		return Signer{}, fmt.Errorf("certificate %q: want an RSA key of %d bits or more\nhint: firmware verifies no other", certificate.Subject, minBits)
	}
	if !public.Equal(key.Public()) {
		return Signer{}, fmt.Errorf("certificate %q: it is of another key", certificate.Subject)
	}
	return Signer{certificate, key}, nil
}

type (
	contentInfo struct {
		Type    asn1.ObjectIdentifier
		Content asn1.RawValue `asn1:"optional"`
	}
	signedData struct {
		Version      int
		Digests      []pkix.AlgorithmIdentifier `asn1:"set"`
		Content      contentInfo
		Certificates asn1.RawValue `asn1:"optional"`
		Signers      []signerInfo  `asn1:"set"`
	}
	signerInfo struct {
		Version int
		ID      struct {
			Issuer asn1.RawValue
			Serial *big.Int
		}
		Digest     pkix.AlgorithmIdentifier
		Attributes asn1.RawValue `asn1:"optional"`
		Encryption pkix.AlgorithmIdentifier
		Signature  []byte
	}
	attribute struct {
		Type   asn1.ObjectIdentifier
		Values []any `asn1:"set"`
	}
)

var (
	oidData          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	oidSignedData    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	oidContentType   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 3}
	oidMessageDigest = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 4}
	oidRSA           = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}
	oidSHA256        = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}
)

// Detached signs content, which is not in what it returns: a SignedData.
func (s Signer) Detached(content []byte, certificates ...*x509.Certificate) ([]byte, error) {
	signature, err := s.sign(content)
	if err != nil {
		return nil, err
	}
	return s.encode(contentInfo{Type: oidData}, signerInfo{Signature: signature}, certificates)
}

// Attached signs content of a type, DER, which is in what it returns together with the certificate: a SignedData.
func (s Signer) Attached(kind asn1.ObjectIdentifier, content []byte) ([]byte, error) {
	var outer asn1.RawValue // What is signed is without its own tag and length (RFC 2315, 9.3).
	if _, err := asn1.Unmarshal(content, &outer); err != nil {
		return nil, fmt.Errorf("PKCS #7: content: %w", err)
	}
	sum := sha256.Sum256(outer.Bytes)
	attributes, err := asn1.MarshalWithParams([]attribute{{oidContentType, []any{kind}}, {oidMessageDigest, []any{sum[:]}}}, "set")
	if err != nil {
		return nil, fmt.Errorf("PKCS #7: attributes: %w", err)
	}
	info := signerInfo{}
	if info.Signature, err = s.sign(attributes); err != nil { // They are signed as the SET they are, and are in it as [0].
		return nil, err
	}
	var set asn1.RawValue
	if _, err := asn1.Unmarshal(attributes, &set); err != nil {
		return nil, fmt.Errorf("PKCS #7: attributes: %w", err)
	}
	info.Attributes = Tagged(0, set.Bytes)
	return s.encode(contentInfo{kind, Tagged(0, content)}, info, []*x509.Certificate{s.Certificate})
}

func (s Signer) sign(content []byte) ([]byte, error) {
	sum := sha256.Sum256(content)
	signature, err := s.key.Sign(nil, sum[:], crypto.SHA256) // PKCS #1 v1.5 needs no random numbers.
	if err != nil {
		return nil, fmt.Errorf("sign by %q: %w", s.Certificate.Subject, err)
	}
	// What a token says of its key is the certificate's, so only this shows which key has signed.
	if err := rsa.VerifyPKCS1v15(s.Certificate.PublicKey.(*rsa.PublicKey), crypto.SHA256, sum[:], signature); err != nil {
		return nil, fmt.Errorf("sign by %q: the signature is of another key: %w\nhint: does the URI of the token name the key of this certificate?", s.Certificate.Subject, err)
	}
	return signature, nil
}

func (s Signer) encode(content contentInfo, info signerInfo, certificates []*x509.Certificate) ([]byte, error) {
	digest := pkix.AlgorithmIdentifier{Algorithm: oidSHA256, Parameters: asn1.NullRawValue}
	info.Version, info.Digest, info.Encryption = 1, digest, pkix.AlgorithmIdentifier{Algorithm: oidRSA, Parameters: asn1.NullRawValue}
	info.ID.Issuer, info.ID.Serial = asn1.RawValue{FullBytes: s.Certificate.RawIssuer}, s.Certificate.SerialNumber
	sd := signedData{Version: 1, Digests: []pkix.AlgorithmIdentifier{digest}, Content: content, Signers: []signerInfo{info}}
	var raw []byte
	for _, c := range certificates {
		raw = append(raw, c.Raw...)
	}
	if len(raw) > 0 {
		sd.Certificates = Tagged(0, raw)
	}
	der, err := asn1.Marshal(sd)
	if err != nil {
		return nil, fmt.Errorf("PKCS #7: %w", err)
	}
	return der, nil
}

// Wrap makes of a SignedData the ContentInfo that most programs read.
func Wrap(signedData []byte) ([]byte, error) {
	der, err := asn1.Marshal(contentInfo{oidSignedData, Tagged(0, signedData)})
	if err != nil {
		return nil, fmt.Errorf("PKCS #7: %w", err)
	}
	return der, nil
}

// Tagged is a constructed value with a tag of its context.
func Tagged(tag int, content []byte) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tag, IsCompound: true, Bytes: content}
}
