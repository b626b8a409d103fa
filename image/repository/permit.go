package repository

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"
)

// Permit allows nodes to go down to a release older than the running one. It is
// signed by the keys of the role targets, as releases are.
type Permit struct {
	ImageID string `json:"imageID"`
	Version string `json:"version"`
	// Node is the host name of the only node that it is for; "" is any.
	Node    string    `json:"node,omitempty"`
	Expires time.Time `json:"expires"`
}

// PermitType is the type of the payload. It tells a permit from the metadata of
// TUF, which the same keys sign.
const PermitType = "application/vnd.loam.permit.v1+json"

// Envelope is a DSSE envelope (protocol 1.0.0): signatures of a payload with
// its type.
type Envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     []byte              `json:"payload"`
	Signatures  []EnvelopeSignature `json:"signatures"`
}

// EnvelopeSignature is the signature by one key.
type EnvelopeSignature struct {
	KeyID string `json:"keyid"`
	Sig   []byte `json:"sig"`
}

// PAE returns the text that the signatures cover (DSSE, "Pre-Authentication
// Encoding").
func (e Envelope) PAE() []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s",
		len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload)
}

// Permit reads a permit. It must be signed by the current keys of the
// repository's targets role, and not have expired: otherwise the error is
// ErrInvalid, ErrUnsigned or ErrExpired.
func (n News) Permit(text []byte) (p Permit, err error) {
	var e Envelope
	if err := strictly(text, &e); err != nil || e.PayloadType != PermitType {
		return p, fmt.Errorf("permit: %w: not what loamctl permit writes", ErrInvalid)
	}

	root := n.Metadata.Root.Signed
	role := root.Roles[metadata.TARGETS]
	by := map[string]bool{}
	for _, s := range e.Signatures {
		key := root.Keys[s.KeyID]
		if key == nil || !slices.Contains(role.KeyIDs, s.KeyID) {
			continue
		}
		public, err := hex.DecodeString(key.Value.PublicKey)
		if err == nil && len(public) == ed25519.PublicKeySize &&
			ed25519.Verify(public, e.PAE(), s.Sig) {
			by[string(public)] = true
		}
	}

	if len(by) < role.Threshold {
		return p, fmt.Errorf("permit: %w: by %d of the %d keys that sign releases",
			ErrUnsigned, len(by), role.Threshold)
	}

	if err := strictly(e.Payload, &p); err != nil {
		return Permit{}, fmt.Errorf("permit: %w: %w", ErrInvalid, err)
	}

	if n.Time.After(p.Expires) {
		return Permit{}, fmt.Errorf("permit: %w on %s, and it is %s",
			ErrExpired, stamp(p.Expires), stamp(n.Time))
	}

	return p, nil
}

// strictly decodes JSON and refuses unknown fields: a condition that is not
// understood counts as not met.
func strictly(text []byte, to any) error {
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
