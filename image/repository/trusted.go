package repository

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Records have the metadata that a client has verified. Write is durable, and
// all or nothing. Read returns fs.ErrNotExist for a name that was never
// written.
type Records interface {
	Read(name string) ([]byte, error)
	Write(name string, data []byte) error
}

// TrustedName is the one name that Update gives to [Records].
const TrustedName = "trusted.json"

// Trusted is the newest metadata that were verified, as they were signed. Their
// versions are what protects from older ones; a change of keys makes them void
// by itself, as the specification wants it (5.3.11).
type Trusted struct {
	// Anchors are the SHA-256 of each root.json, from the first configured one
	// up to Root.
	Anchors   []string `json:"anchors"`
	Root      []byte   `json:"root"`
	Timestamp []byte   `json:"timestamp,omitempty"`
	Snapshot  []byte   `json:"snapshot,omitempty"`
	Targets   []byte   `json:"targets,omitempty"`
}

// Load reads the metadata from s. A damaged file counts as absent: a node that
// can never update again is worse than a node that forgot what it saw.
func Load(s Records) (Trusted, error) {
	text, err := s.Read(TrustedName)
	if errors.Is(err, fs.ErrNotExist) {
		return Trusted{}, nil
	}

	if err != nil {
		return Trusted{}, fmt.Errorf("%w: %w", ErrNotKept, err)
	}

	var t Trusted
	if err := json.Unmarshal(text, &t); err != nil {
		return Trusted{}, nil
	}

	return t, nil
}

// Save writes t to s.
func (t Trusted) Save(s Records) error {
	text, err := json.Marshal(t)
	if err == nil {
		err = s.Write(TrustedName, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotKept, err)
	}
	return nil
}

func (t Trusted) equal(o Trusted) bool {
	return slices.Equal(t.Anchors, o.Anchors) && bytes.Equal(t.Root, o.Root) &&
		bytes.Equal(t.Timestamp, o.Timestamp) &&
		bytes.Equal(t.Snapshot, o.Snapshot) && bytes.Equal(t.Targets, o.Targets)
}

// begin returns t for a node that is configured to trust root. If t comes from
// another root.json, its Root is no longer trusted; the rest stays valid if the
// keys of the new root signed it.
func (t Trusted) begin(root []byte) Trusted {
	if slices.Contains(t.Anchors, anchor(root)) && usable(t.Root) {
		return t
	}
	t.Anchors = []string{anchor(root)}
	t.Root = root
	return t
}

// usable: not damaged since it was kept.
func usable(root []byte) bool {
	_, err := open(root)
	return err == nil
}

// follow takes the successor of Root.
func (t *Trusted) follow(root []byte) {
	t.Anchors = append(slices.Clone(t.Anchors), anchor(root))
	t.Root = root
}

func anchor(root []byte) string {
	sum := sha256.Sum256(root)
	return hex.EncodeToString(sum[:])
}
