package repository

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/loam-os/loam/image/dsse"
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

// Permit reads a permit. It must be signed by the current keys of the
// repository's targets role, and not have expired: otherwise the error is
// ErrInvalid, ErrUnsigned or ErrExpired.
func (n News) Permit(text []byte) (p Permit, err error) {
	e, err := dsse.Parse(text, PermitType)
	if err != nil {
		return p, fmt.Errorf("permit: %w: not what loamctl permit writes", ErrInvalid)
	}

	root := n.Metadata.Root.Signed
	role := root.Roles[metadata.TARGETS]
	var keys []ed25519.PublicKey
	for _, id := range role.KeyIDs {
		if key := root.Keys[id]; key != nil {
			public, _ := hex.DecodeString(key.Value.PublicKey) // Else it signs nothing.
			keys = append(keys, public)
		}
	}

	if by := e.Signers(keys...); len(by) < role.Threshold {
		return p, fmt.Errorf("permit: %w: by %d of the %d keys that sign releases",
			ErrUnsigned, len(by), role.Threshold)
	}

	if err := dsse.Strictly(e.Payload, &p); err != nil {
		return Permit{}, fmt.Errorf("permit: %w: %w", ErrInvalid, err)
	}

	if n.Time.After(p.Expires) {
		return Permit{}, fmt.Errorf("permit: %w on %s, and it is %s",
			ErrExpired, stamp(p.Expires), stamp(n.Time))
	}

	return p, nil
}
