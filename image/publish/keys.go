package publish

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Keys sign a repository. Each is a file of a directory, PKCS#8 in PEM:
// root-1.pem to root-N.pem, targets.pem, snapshot.pem and timestamp.pem. Those
// that are not needed may be somewhere else: nil.
type Keys struct {
	Root                         []ed25519.PrivateKey
	Targets, Snapshot, Timestamp ed25519.PrivateKey
}

// NewKeys makes new keys, of them roots of root, in a directory that has none
// yet.
func NewKeys(dir string, roots int) (Keys, error) {
	if have, err := LoadKeys(dir); err != nil || have.any() {
		return Keys{}, errors.Join(err,
			hint.With(fault.With(fmt.Errorf("keys: %s has some already", dir), fault.FileExists),
				"keys are never replaced by new ones; name another directory"))
	}

	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Keys{}, fmt.Errorf("keys: %w", err)
	}

	names := []string{"targets.pem", "snapshot.pem", "timestamp.pem"}
	for i := range roots {
		names = append(names, rootName(i))
	}

	for _, name := range names {
		if err := newKey(filepath.Join(dir, name)); err != nil {
			return Keys{}, fmt.Errorf("keys: %w", err)
		}
	}

	return LoadKeys(dir)
}

func rootName(i int) string { return fmt.Sprintf("root-%d.pem", i+1) }

func newKey(file string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}

	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}

	return writeFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

// LoadKeys reads the keys that are in dir.
func LoadKeys(dir string) (k Keys, err error) {
	for name, to := range map[string]*ed25519.PrivateKey{
		"targets.pem":   &k.Targets,
		"snapshot.pem":  &k.Snapshot,
		"timestamp.pem": &k.Timestamp,
	} {
		*to, err = loadKey(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Keys{}, err
		}
	}

	files, err := filepath.Glob(
		filepath.Join(strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir),
			"root-*.pem"),
	)
	if err != nil {
		return Keys{}, fmt.Errorf("keys: %w", err)
	}

	for _, file := range files {
		key, err := loadKey(file)
		if err != nil {
			return Keys{}, err
		}
		k.Root = append(k.Root, key)
	}

	return k, nil
}

func loadKey(file string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}

	block, rest := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, fault.With(fmt.Errorf("key %s: want one PRIVATE KEY in PEM", file),
			fault.KeyUnfit)
	}

	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", file, err)
	}
	if key, ok := key.(ed25519.PrivateKey); ok {
		return key, nil
	}

	return nil, fault.With(fmt.Errorf("key %s: want ed25519", file), fault.KeyUnfit)
}

func (k Keys) any() bool {
	return len(k.Root) > 0 || k.Targets != nil || k.Snapshot != nil || k.Timestamp != nil
}
