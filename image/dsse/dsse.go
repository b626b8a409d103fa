// Package dsse signs texts in DSSE envelopes (Dead Simple Signing Envelope,
// protocol 1.0.0) with ed25519 keys, and verifies them.
//
//	[Sign] --> text of the envelope --> [Parse] --> Envelope.Signers, Payload
//
// The payload has a type, which the signatures cover, so that one key may sign
// several kinds of texts. A payload must not be used before Signers has
// returned the keys that are wanted.
package dsse

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Envelope is a payload with its type and signatures.
type Envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     []byte      `json:"payload"`
	Signatures  []Signature `json:"signatures"`
}

// Signature is the signature by one key. KeyID is what its maker calls the key;
// nothing is decided by it.
type Signature struct {
	KeyID string `json:"keyid"`
	Sig   []byte `json:"sig"`
}

// maxSignatures bounds the work of verifying an envelope.
const maxSignatures = 16

// Parse reads an envelope with a payload of that type. It verifies nothing.
func Parse(text []byte, kind string) (Envelope, error) {
	var e Envelope
	if err := Strictly(text, &e); err != nil {
		return Envelope{}, err
	}
	if e.PayloadType != kind {
		return Envelope{}, fmt.Errorf("payload of type %.80q: want %s", e.PayloadType, kind)
	}
	if n := len(e.Signatures); n > maxSignatures {
		return Envelope{}, fmt.Errorf("%d signatures: want at most %d", n, maxSignatures)
	}
	return e, nil
}

// PAE returns the text that the signatures cover (DSSE, "Pre-Authentication
// Encoding").
func (e Envelope) PAE() []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s",
		len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload)
}

// Signers returns which of the keys have signed the envelope, each once.
func (e Envelope) Signers(keys ...ed25519.PublicKey) []ed25519.PublicKey {
	covered := e.PAE()
	var by []ed25519.PublicKey
	for _, key := range keys {
		known := func(other ed25519.PublicKey) bool { return key.Equal(other) }
		signed := func(s Signature) bool { return ed25519.Verify(key, covered, s.Sig) }
		if len(key) == ed25519.PublicKeySize && !slices.ContainsFunc(by, known) &&
			slices.ContainsFunc(e.Signatures, signed) {
			by = append(by, key)
		}
	}
	return by
}

// Sign returns the text of an envelope that each of the keys, which are
// ed25519, has signed. id names a key.
func Sign(
	kind string,
	payload []byte,
	id func(ed25519.PublicKey) (string, error),
	keys ...crypto.Signer,
) ([]byte, error) {
	e := Envelope{PayloadType: kind, Payload: payload}
	for _, key := range keys {
		name, err := id(key.Public().(ed25519.PublicKey))
		if err != nil {
			return nil, err
		}

		sig, err := key.Sign(nil, e.PAE(), crypto.Hash(0))
		if err != nil {
			return nil, err
		}
		e.Signatures = append(e.Signatures, Signature{KeyID: name, Sig: sig})
	}

	text, err := json.MarshalIndent(e, "", "  ")
	return append(text, '\n'), err
}

// Strictly decodes JSON and refuses unknown fields: a condition that is not
// understood counts as not met.
func Strictly(text []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more after its end")
	}

	return nil
}
