package repository

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/theupdateframework/go-tuf/v2/metadata"
	"github.com/theupdateframework/go-tuf/v2/metadata/trustedmetadata"
)

// open trusts root. It checks before go-tuf uses them the things that go-tuf
// takes for granted and would stumble over.
func open(root []byte) (*trustedmetadata.TrustedMetadata, error) {
	if err := saneRoot(root); err != nil {
		return nil, err
	}
	return trustedmetadata.New(root)
}

// saneRoot: a root of this repository has all four roles, ed25519 keys only,
// and consistent snapshots.
func saneRoot(text []byte) error {
	m, err := metadata.Root().FromBytes(text)
	if err != nil {
		return err
	}

	s := m.Signed
	if err := saneHead(s.SpecVersion, s.Version); err != nil {
		return err
	}
	if !s.ConsistentSnapshot {
		return fmt.Errorf("consistent_snapshot: want true")
	}

	for id, key := range s.Keys {
		if key == nil || key.Type != metadata.KeyTypeEd25519 ||
			key.Scheme != metadata.KeySchemeEd25519 {
			return fmt.Errorf("key %.80q: want ed25519", id)
		}
		public, err := hex.DecodeString(key.Value.PublicKey)
		if err != nil || len(public) != ed25519.PublicKeySize {
			return fmt.Errorf("key %.80q: want %d bytes in hex", id, ed25519.PublicKeySize)
		}
	}

	for _, name := range metadata.TOP_LEVEL_ROLE_NAMES {
		role := s.Roles[name]
		if role == nil || role.Threshold < 1 || role.Threshold > len(role.KeyIDs) {
			return fmt.Errorf("role %s: missing, or a threshold that its keys cannot reach", name)
		}
		for _, id := range role.KeyIDs {
			if s.Keys[id] == nil {
				return fmt.Errorf("role %s: key %.80q is not there", name, id)
			}
		}
	}

	return nil
}

// saneTimestamp: it names the snapshot, with length and digest, so that no more
// is read and parsed than was signed.
func saneTimestamp(text []byte) error {
	m, err := metadata.Timestamp().FromBytes(text)
	if err != nil {
		return err
	}
	if err := saneHead(m.Signed.SpecVersion, m.Signed.Version); err != nil {
		return err
	}
	return saneMeta(m.Signed.Meta, metadata.SNAPSHOT, maxSnapshot)
}

// saneSnapshot likewise names the targets. text has the digest that a signed
// timestamp gives it.
func saneSnapshot(text []byte) error {
	m, err := metadata.Snapshot().FromBytes(text)
	if err != nil {
		return err
	}
	if err := saneHead(m.Signed.SpecVersion, m.Signed.Version); err != nil {
		return err
	}

	for name, file := range m.Signed.Meta {
		if file == nil {
			return fmt.Errorf("meta %.80q: nothing", name)
		}
	}

	return saneMeta(m.Signed.Meta, metadata.TARGETS, maxTargets)
}

// saneTargets: no target is nothing. text has the digest that a signed snapshot
// gives it.
func saneTargets(text []byte) error {
	var m struct {
		Signed struct {
			SpecVersion string `json:"spec_version"`
			Version     int64  `json:"version"`
			Targets     map[string]json.RawMessage
		}
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return err
	}

	for path, file := range m.Signed.Targets {
		if string(file) == "null" {
			return fmt.Errorf("targets %.80q: nothing", path)
		}
	}

	return saneHead(m.Signed.SpecVersion, m.Signed.Version)
}

func saneHead(spec string, version int64) error {
	if !strings.HasPrefix(spec, "1.") || version < 1 {
		return fmt.Errorf("spec_version %.20q, version %d: want 1.x, and 1 or more", spec, version)
	}
	return nil
}

func saneMeta(meta map[string]*metadata.MetaFiles, role string, limit int64) error {
	m := meta[role+".json"]
	if m == nil || m.Version < 1 || m.Length < 1 || m.Length > limit ||
		len(m.Hashes["sha256"]) != 32 {
		return fmt.Errorf("meta %s.json: want a version, a length up to %d and a sha256",
			role, limit)
	}
	return nil
}
