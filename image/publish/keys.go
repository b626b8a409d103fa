package publish

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Keys sign a repository; all are ed25519. Each is a file of a directory, PKCS#8
// in PEM: root-1.pem to root-N.pem, targets.pem, snapshot.pem and timestamp.pem.
// A file may have the public key alone, if the private one is in a token. Keys
// that are not needed may be somewhere else: nil.
type Keys struct {
	Root                         []crypto.Signer
	Targets, Snapshot, Timestamp crypto.Signer
}

// External returns what signs with a private key that is not in a file. name is
// the name of the file with its public key, without the ending .pem.
type External func(name string, public ed25519.PublicKey) (crypto.Signer, error)

// FilesOnly is the External of whoever has no other keys than files. Its keys
// sign nothing.
func FilesOnly(name string, public ed25519.PublicKey) (crypto.Signer, error) {
	return outOfReach{name, public}, nil
}

// outOfReach is a public key.
type outOfReach struct {
	name   string
	public ed25519.PublicKey
}

// Public implements [crypto.Signer].
func (o outOfReach) Public() crypto.PublicKey { return o.public }

// Sign implements [crypto.Signer].
func (o outOfReach) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return nil, hint.With(
		fault.With(fmt.Errorf("key %s: its file has only the public key", o.name), fault.KeyUnfit),
		"--signer names the token, or the command, that has the private one")
}

// NewKeys makes new keys, of them roots of root, in a directory that has none
// yet.
func NewKeys(dir string, roots int) (Keys, error) {
	if have, err := LoadKeys(dir, FilesOnly); err != nil || have.any() {
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

	return LoadKeys(dir, FilesOnly)
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
func LoadKeys(dir string, external External) (k Keys, err error) {
	for name, to := range map[string]*crypto.Signer{
		"targets.pem":   &k.Targets,
		"snapshot.pem":  &k.Snapshot,
		"timestamp.pem": &k.Timestamp,
	} {
		*to, err = LoadKey(filepath.Join(dir, name), external)
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
		key, err := LoadKey(file, external)
		if err != nil {
			return Keys{}, err
		}
		k.Root = append(k.Root, key)
	}

	return k, nil
}

// LoadKey reads an ed25519 key from a PEM file: a private key (PKCS #8), or a
// public one whose private key is external.
func LoadKey(file string, external External) (crypto.Signer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}

	block, rest := pem.Decode(text)
	if block == nil || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, unfit(file, "want one PRIVATE KEY or PUBLIC KEY in PEM")
	}

	var key any
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	default:
		return nil, unfit(file, "want one PRIVATE KEY or PUBLIC KEY in PEM")
	}
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", file, err)
	}

	switch key := key.(type) {
	case ed25519.PrivateKey:
		return key, nil
	case ed25519.PublicKey:
		return external(strings.TrimSuffix(filepath.Base(file), ".pem"), key)
	}
	return nil, unfit(file, "want ed25519")
}

func unfit(file, problem string) error {
	return fault.With(fmt.Errorf("key %s: %s", file, problem), fault.KeyUnfit)
}

func (k Keys) any() bool {
	return len(k.Root) > 0 || k.Targets != nil || k.Snapshot != nil || k.Timestamp != nil
}
