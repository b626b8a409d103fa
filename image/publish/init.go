package publish

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/meter"
)

// Init makes the metadata of a repository without releases in dir. threshold of
// the root keys have to sign each root.json.
func Init(dir string, keys Keys, threshold int, e Expiries, now time.Time) error {
	_, err := os.Stat(filepath.Join(dir, "metadata/1.root.json"))
	if !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fault.With(fmt.Errorf("repository %s: is one already", dir),
			fault.FileExists))
	}

	for _, sub := range []string{"metadata", "targets"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return fmt.Errorf("repository: %w", err)
		}
	}

	unlock, err := Lock(dir)
	if err != nil {
		return err
	}
	defer unlock()

	st := newState()
	s := signer{
		dir:      dir,
		keys:     keys,
		expiries: e,
		now:      now,
	}
	if err := s.commit(st, func() error { return s.root(st, keys.Root, threshold) }); err != nil {
		return fmt.Errorf("repository %s: %w", dir, err)
	}

	return nil
}

// Rotate replaces the keys of the repository in dir by fresh, and signs
// everything with them. The new root.json is signed by the root keys of old as
// well, so that nodes follow. Nodes that read just then may see a repository
// that is not signed, once.
func Rotate(dir string, old, fresh Keys, threshold int, e Expiries, now time.Time) error {
	unlock, err := Lock(dir)
	if err != nil {
		return err
	}
	defer unlock()

	st, err := readState(context.Background(), dir, meter.None)
	if err != nil {
		return err
	}
	if err := enough(st.root, old.Root); err != nil {
		return fmt.Errorf("repository %s: %w", dir, err)
	}

	s := signer{
		dir:      dir,
		keys:     fresh,
		expiries: e,
		now:      now,
	}

	signers := append(append([]crypto.Signer{}, old.Root...), fresh.Root...)
	if err := s.commit(st, func() error { return s.root(st, signers, threshold) }); err != nil {
		return fmt.Errorf("repository %s: %w", dir, err)
	}

	return nil
}

// root signs a new root.json with the signers' keys. It gives all roles the
// keys of signer.
func (s signer) root(st state, signers []crypto.Signer, threshold int) error {
	if threshold < 1 || threshold > len(s.keys.Root) {
		return fmt.Errorf("root.json: a threshold of %d with %d root keys",
			threshold, len(s.keys.Root))
	}

	signed := &st.root.Signed
	signed.Version++
	signed.Expires = s.until(s.expiries.Root)
	signed.Keys = map[string]*metadata.Key{}

	signed.Roles = map[string]*metadata.Role{}
	for role, keys := range map[string][]crypto.Signer{
		metadata.ROOT:      s.keys.Root,
		metadata.TARGETS:   {s.keys.Targets},
		metadata.SNAPSHOT:  {s.keys.Snapshot},
		metadata.TIMESTAMP: {s.keys.Timestamp},
	} {
		signed.Roles[role] = &metadata.Role{KeyIDs: []string{}, Threshold: 1}
		for _, key := range keys {
			if err := addKey(signed, role, key); err != nil {
				return err
			}
		}
	}

	signed.Roles[metadata.ROOT].Threshold = threshold
	signers, err := distinct(signers)
	if err != nil {
		return err
	}

	_, err = put(s, fmt.Sprintf("%d.root.json", signed.Version), st.root, signers...)
	return err
}

func addKey(root *metadata.RootType, role string, key crypto.Signer) error {
	if key == nil {
		return fault.With(fmt.Errorf("root.json: no key for %s", role), fault.KeyUnfit)
	}
	public, err := metadata.KeyFromPublicKey(key.Public())
	if err != nil {
		return err
	}
	return root.AddKey(public, role)
}

// distinct leaves out keys that are there before: a file has one signature of
// each.
func distinct(keys []crypto.Signer) ([]crypto.Signer, error) {
	var list []crypto.Signer
	seen := map[string]bool{}
	for _, key := range keys {
		if key == nil {
			return nil, fault.With(errors.New("root.json: a root key is missing"), fault.KeyUnfit)
		}
		if public := string(key.Public().(ed25519.PublicKey)); !seen[public] {
			seen[public] = true
			list = append(list, key)
		}
	}
	return list, nil
}

// enough reports root keys too few for the nodes to follow.
func enough(root *metadata.Metadata[metadata.RootType], keys []crypto.Signer) error {
	role := root.Signed.Roles[metadata.ROOT]
	n := 0

	keys, err := distinct(keys)
	if err != nil {
		return err
	}

	for _, key := range keys {
		public, err := metadata.KeyFromPublicKey(key.Public())
		if err != nil {
			return err
		}

		id, err := public.ID()
		if err != nil {
			return err
		}

		for _, want := range role.KeyIDs {
			if id == want {
				n++
			}
		}
	}

	if n < role.Threshold {
		return hint.With(
			fault.With(fmt.Errorf("root.json: %d of its root keys are here, it takes %d", n, role.Threshold),
				fault.KeyUnfit),
			"put the others beside them")
	}

	return nil
}
