// Package pkcs7 signs for firmware and kernel, and verifies as firmware does:
// PKCS
// #7 SignedData (RFC 2315) of one signer.
package pkcs7

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
)

// SignedData is content and its signature.
type SignedData struct {
	Version      int
	Digests      []pkix.AlgorithmIdentifier `asn1:"set"`
	Content      ContentInfo
	Certificates asn1.RawValue `asn1:"optional,tag:0"`
	CRLs         asn1.RawValue `asn1:"optional,tag:1"`
	Signers      []signerInfo  `asn1:"set"`
}

// ContentInfo is content of a type, DER within a tag.
type ContentInfo struct {
	Type    asn1.ObjectIdentifier
	Content asn1.RawValue `asn1:"explicit,optional,tag:0"`
}

type (
	signerInfo struct {
		Version int
		ID      struct {
			Issuer asn1.RawValue
			Serial *big.Int
		}
		Digest     pkix.AlgorithmIdentifier
		Attributes asn1.RawValue `asn1:"optional,tag:0"`
		Encryption pkix.AlgorithmIdentifier
		Signature  []byte
		Unsigned   asn1.RawValue `asn1:"optional,tag:1"`
	}
	attribute struct {
		Type   asn1.ObjectIdentifier
		Values []asn1.RawValue `asn1:"set"`
	}
)

var (
	oidData          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	oidSignedData    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	oidContentType   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 3}
	oidMessageDigest = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 4}
)

var (
	// SHA256 is the algorithm of all digests.
	SHA256 = pkix.AlgorithmIdentifier{
		Algorithm:  asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1},
		Parameters: asn1.NullRawValue,
	}
	// RSA
	encryption = pkix.AlgorithmIdentifier{
		Algorithm:  asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1},
		Parameters: asn1.NullRawValue,
	}
)

// Wrap wraps a SignedData in a ContentInfo, which most programs read.
func Wrap(signedData []byte) ([]byte, error) {
	der, err := asn1.Marshal(ContentInfo{oidSignedData, tagged(0, signedData)})
	if err != nil {
		return nil, fmt.Errorf("PKCS #7: %w", err)
	}
	return der, nil
}

// tagged is a constructed value with a tag of its context.
func tagged(tag int, content []byte) asn1.RawValue {
	return asn1.RawValue{
		Class:      asn1.ClassContextSpecific,
		Tag:        tag,
		IsCompound: true,
		Bytes:      content,
	}
}

// untagged is content without its own tag and length: these bytes are signed
// (RFC 2315, 9.3).
func untagged(content []byte) ([]byte, error) {
	var outer asn1.RawValue
	if _, err := asn1.Unmarshal(content, &outer); err != nil {
		return nil, fmt.Errorf("PKCS #7: content: %w", err)
	}
	return outer.Bytes, nil
}
