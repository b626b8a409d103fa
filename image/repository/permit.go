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

// permitType separates the signed text from TUF's metadata, which the same keys
// sign.
const permitType = "application/vnd.loam.permit.v1+json"

// envelope is a DSSE envelope (protocol 1.0.0): signatures of a payload with
// its type.
type envelope struct {
	PayloadType string          `json:"payloadType"`
	Payload     []byte          `json:"payload"`
	Signatures  []envelopeProof `json:"signatures"`
}

type envelopeProof struct {
	KeyID string `json:"keyid"`
	Sig   []byte `json:"sig"`
}

// signed is the text that the signatures cover.
func (e envelope) signed() []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s",
		len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload)
}

// SignPermit permits a release of the repository in dir until then, to a node,
// or "" for all.
func SignPermit(
	dir string, keys Keys, version, node string, until time.Time,
) (Permit, []byte, error) {
	st, err := readState(dir)
	if err != nil {
		return Permit{}, nil, err
	}

	all := releases(st.targets.Signed.Targets)
	at := slices.IndexFunc(all, func(r Release) bool { return r.Version == version })
	if at < 0 {
		return Permit{}, nil, fmt.Errorf("repository %s: no version %q\n"+
			"hint: only what is published can be permitted", dir, version)
	}

	p := Permit{
		ImageID: all[at].ImageID,
		Version: version,
		Node:    node,
		Expires: until.UTC().Truncate(time.Second),
	}

	payload, err := json.Marshal(p)
	if err != nil {
		return Permit{}, nil, err
	}

	text, err := enveloped(permitType, payload, keys.Targets)
	if err == nil { // The key may be another repository's.
		_, err = News{root: &st.root.Signed, Time: p.Expires}.Permit(text)
	}

	return p, text, err
}

// enveloped signs a payload.
func enveloped(kind string, payload []byte, keys ...ed25519.PrivateKey) ([]byte, error) {
	e := envelope{PayloadType: kind, Payload: payload}
	for _, key := range keys {
		if key == nil {
			return nil, errors.New("sign a permit: no such key in the directory of keys")
		}

		public, err := metadata.KeyFromPublicKey(key.Public())
		if err != nil {
			return nil, err
		}

		id, err := public.ID()
		if err != nil {
			return nil, err
		}

		e.Signatures = append(e.Signatures, envelopeProof{id, ed25519.Sign(key, e.signed())})
	}

	text, err := json.MarshalIndent(e, "", "  ")
	return append(text, '\n'), err
}

// Permit reads a permit. It must be signed by the current keys of the
// repository's targets role, and not have expired: otherwise the error is
// ErrInvalid, ErrUnsigned or ErrExpired.
func (n News) Permit(text []byte) (p Permit, err error) {
	var e envelope
	if err := strictly(text, &e); err != nil || e.PayloadType != permitType {
		return p, fmt.Errorf("permit: %w: not what loamctl permit writes", ErrInvalid)
	}

	role := n.root.Roles[metadata.TARGETS]
	by := map[string]bool{}
	for _, s := range e.Signatures {
		key := n.root.Keys[s.KeyID]
		if key == nil || !slices.Contains(role.KeyIDs, s.KeyID) {
			continue
		}
		public, err := hex.DecodeString(key.Value.PublicKey)
		if err == nil && len(public) == ed25519.PublicKeySize &&
			ed25519.Verify(public, e.signed(), s.Sig) {
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
