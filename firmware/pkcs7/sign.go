package pkcs7

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Signer signs with one key, RSA. Its signatures carry no time, so that signing
// twice gives the same bytes.
type Signer struct {
	Certificate *x509.Certificate
	key         crypto.Signer
}

// minBits is the size of key that all firmware verifies (UEFI 32.2.4: RSA 2048).
// RSA is the only algorithm that all firmware verifies.
const minBits = 2048

// NewSigner returns a signer with a certificate and its key.
func NewSigner(certificate *x509.Certificate, key crypto.Signer) (Signer, error) {
	public, ok := certificate.PublicKey.(*rsa.PublicKey)
	if !ok || public.N.BitLen() < minBits {
		return Signer{}, hint.With(
			fmt.Errorf(
				"certificate %q: want an RSA key of %d bits or more",
				certificate.Subject, minBits,
			),
			"firmware verifies no other",
		)
	}
	if !public.Equal(key.Public()) {
		return Signer{}, hint.With(
			fault.With(fmt.Errorf("certificate %q: it belongs to another key", certificate.Subject),
				fault.KeyUnfit),
			"name the certificate of the key, or the key of the certificate")
	}
	return Signer{certificate, key}, nil
}

// Detached signs content. It returns a SignedData without the content.
func (s Signer) Detached(content []byte, certificates ...*x509.Certificate) ([]byte, error) {
	signature, err := s.sign(content)
	if err != nil {
		return nil, err
	}
	return s.encode(ContentInfo{Type: oidData}, signerInfo{Signature: signature}, certificates)
}

// Attached signs content of a type, DER. It returns a SignedData with the
// content and the certificate.
func (s Signer) Attached(kind asn1.ObjectIdentifier, content []byte) ([]byte, error) {
	inner, err := untagged(content)
	if err != nil {
		return nil, err
	}

	of, err := asn1.Marshal(kind)
	if err != nil {
		return nil, fmt.Errorf("PKCS #7: content type: %w", err)
	}

	sum := sha256.Sum256(inner)
	attributes, err := asn1.MarshalWithParams([]attribute{
		{oidContentType, []asn1.RawValue{{FullBytes: of}}},
		{oidMessageDigest, []asn1.RawValue{{Tag: asn1.TagOctetString, Bytes: sum[:]}}},
	}, "set")
	if err != nil {
		return nil, fmt.Errorf("PKCS #7: attributes: %w", err)
	}

	info := signerInfo{}
	info.Signature, err = s.sign(attributes)
	if err != nil { // They are signed as the SET they are, and are in it as [0].
		return nil, err
	}

	attributes, err = untagged(attributes)
	if err != nil {
		return nil, err
	}

	info.Attributes = tagged(0, attributes)
	return s.encode(ContentInfo{kind, tagged(0, content)}, info, []*x509.Certificate{s.Certificate})
}

func (s Signer) sign(content []byte) ([]byte, error) {
	sum := sha256.Sum256(content)

	// PKCS #1 v1.5 needs no random numbers.
	signature, err := s.key.Sign(nil, sum[:], crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("sign by %q: %w", s.Certificate.Subject, err)
	}

	// A token describes its key by the certificate, so only this shows which key
	// has signed.
	err = rsa.VerifyPKCS1v15(s.Certificate.PublicKey.(*rsa.PublicKey), crypto.SHA256,
		sum[:], signature)
	if err != nil {
		return nil, hint.With(
			fmt.Errorf(
				"sign by %q: the signature belongs to another key: %w",
				s.Certificate.Subject, err,
			),
			"does the URI of the token name the key of this certificate?",
		)
	}

	return signature, nil
}

func (s Signer) encode(
	content ContentInfo, info signerInfo, certificates []*x509.Certificate,
) ([]byte, error) {
	info.Version = 1
	info.Digest = SHA256
	info.Encryption = encryption
	info.ID.Issuer = asn1.RawValue{FullBytes: s.Certificate.RawIssuer}

	info.ID.Serial = s.Certificate.SerialNumber

	sd := SignedData{
		Version: 1,
		Digests: []pkix.AlgorithmIdentifier{SHA256},
		Content: content,
		Signers: []signerInfo{info},
	}

	var raw []byte
	for _, c := range certificates {
		raw = append(raw, c.Raw...)
	}
	if len(raw) > 0 {
		sd.Certificates = tagged(0, raw)
	}

	der, err := asn1.Marshal(sd)
	if err != nil {
		return nil, fmt.Errorf("PKCS #7: %w", err)
	}

	return der, nil
}
