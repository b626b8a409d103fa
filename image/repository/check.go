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

// open trusts root. It first checks what go-tuf takes for granted.
func open(root []byte) (*trustedmetadata.TrustedMetadata, error) {
	if err := checkRoot(root); err != nil {
		return nil, err
	}
	return trustedmetadata.New(root)
}

// checkRoot returns an error unless a root has all four roles, ed25519 keys
// only and consistent snapshots.
func checkRoot(text []byte) error {
	m, err := metadata.Root().FromBytes(text)
	if err != nil {
		return err
	}

	s := m.Signed
	if err := checkHead(s.SpecVersion, s.Version); err != nil {
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
				return fmt.Errorf("role %s: key %.80q is missing", name, id)
			}
		}
	}

	return nil
}

// checkTimestamp returns an error unless a timestamp names the snapshot with
// its length and digest, so that no more is read and parsed than was signed.
func checkTimestamp(text []byte) error {
	m, err := metadata.Timestamp().FromBytes(text)
	if err != nil {
		return err
	}
	if err := checkHead(m.Signed.SpecVersion, m.Signed.Version); err != nil {
		return err
	}
	return checkMeta(m.Signed.Meta, metadata.SNAPSHOT, maxSnapshot)
}

// checkSnapshot returns an error unless a snapshot names the targets with their
// length and digest. text has the digest that a signed timestamp gives it.
func checkSnapshot(text []byte) error {
	m, err := metadata.Snapshot().FromBytes(text)
	if err != nil {
		return err
	}
	if err := checkHead(m.Signed.SpecVersion, m.Signed.Version); err != nil {
		return err
	}

	for name, file := range m.Signed.Meta {
		if file == nil {
			return fmt.Errorf("meta %.80q: null", name)
		}
	}

	return checkMeta(m.Signed.Meta, metadata.TARGETS, maxTargets)
}

// checkTargets returns an error if a target is null. text has the digest that a
// signed snapshot gives it.
func checkTargets(text []byte) error {
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
			return fmt.Errorf("targets %.80q: null", path)
		}
	}

	return checkHead(m.Signed.SpecVersion, m.Signed.Version)
}

func checkHead(spec string, version int64) error {
	if !strings.HasPrefix(spec, "1.") || version < 1 {
		return fmt.Errorf("spec_version %.20q, version %d: want 1.x, and 1 or more", spec, version)
	}
	return nil
}

func checkMeta(meta map[string]*metadata.MetaFiles, role string, limit int64) error {
	m := meta[role+".json"]
	if m == nil || m.Version < 1 || m.Length < 1 || m.Length > limit ||
		len(m.Hashes["sha256"]) != 32 {
		return fmt.Errorf("meta %s.json: want a version, a length up to %d and a sha256",
			role, limit)
	}
	return nil
}
