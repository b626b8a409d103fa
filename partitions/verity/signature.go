package verity

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// Signature is the content of a verity-sig partition: JSON, padded with zeros
// to full blocks (Discoverable Partitions Specification, "signature
// partitions").
type Signature struct {
	// RootHash is in hex.
	RootHash string `json:"rootHash"`

	// CertificateFingerprint is the SHA-256 of the certificate in DER, in hex.
	CertificateFingerprint string `json:"certificateFingerprint"`

	// Signature is PKCS#7 in DER, detached and without certificates, of the
	// text RootHash.
	Signature []byte `json:"signature"`
}

// NewSignature returns the signature of a root hash by the key of a
// certificate, which is in DER.
func NewSignature(rootHash [32]byte, certificate, pkcs7 []byte) Signature {
	sum := sha256.Sum256(certificate)
	return Signature{hex.EncodeToString(rootHash[:]), hex.EncodeToString(sum[:]), pkcs7}
}

// MaxSignature is the most bytes that Encode makes.
const MaxSignature = 16 << 10

// Encode makes the content of the partition.
func (s Signature) Encode() ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the signature of a root hash: %w", err)
	}
	if len(text) >= MaxSignature {
		return nil, fmt.Errorf("signature of a root hash: %d bytes, want less than %d",
			len(text), MaxSignature)
	}
	return append(text, make([]byte, BlockSize-len(text)%BlockSize)...), nil
}

// ParseSignature reads the start of a partition, or all of it.
func ParseSignature(content []byte) (Signature, error) {
	var s Signature
	text, _, _ := bytes.Cut(content[:min(len(content), MaxSignature)], []byte{0})
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("signature of a root hash: %w", err)
	}

	_, err := ParseRootHash(s.RootHash)
	if err == nil && len(s.Signature) == 0 {
		err = errors.New("it is empty")
	}

	if err != nil {
		return s, fmt.Errorf("signature of a root hash: %w", err)
	}

	return s, nil
}
