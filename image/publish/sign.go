package publish

import (
	"cmp"
	"crypto"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/theupdateframework/go-tuf/v2/metadata"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/repository"
)

// Expiries say for how long metadata are valid after they were signed.
type Expiries struct{ Root, Targets, Snapshot, Timestamp time.Duration }

// DefaultExpiries returns expiries by which a frozen repository is noticed
// after a week.
func DefaultExpiries() Expiries {
	const day = 24 * time.Hour
	return Expiries{
		Root:      730 * day,
		Targets:   365 * day,
		Snapshot:  365 * day,
		Timestamp: 7 * day,
	}
}

// signer writes metadata into a repository.
type signer struct {
	dir      string // of the repository
	keys     Keys
	expiries Expiries
	now      time.Time
}

func (s signer) until(d time.Duration) time.Time { return s.now.Add(d).UTC().Truncate(time.Second) }

// errNoKey means that a key that has to sign is not among the keys.
var errNoKey = hint.With(
	fault.With(errors.New("no such key in the directory of keys"), fault.KeyUnfit),
	"--keys is the directory with targets.pem, snapshot.pem and timestamp.pem, which "+
		"`loamctl bundle --init` has made",
)

// sealed signs m in place of all earlier signatures, and encodes it.
func sealed[T metadata.Roles](m *metadata.Metadata[T], keys ...crypto.Signer) ([]byte, error) {
	m.Signatures = nil
	for _, key := range keys {
		if key == nil {
			return nil, errNoKey
		}
		by := &tufKey{Signer: key}
		if _, err := m.Sign(by); err != nil {
			return nil, cmp.Or(by.err, err)
		}
	}

	return m.ToBytes(false)
}

// tufKey is an ed25519 key that may be out of reach. It implements
// [signature.Signer].
type tufKey struct {
	crypto.Signer
	// err says why it did not sign, which go-tuf does not tell.
	err error
}

// PublicKey implements [signature.PublicKeyProvider].
func (k *tufKey) PublicKey(...signature.PublicKeyOption) (crypto.PublicKey, error) {
	return k.Public(), nil
}

// SignMessage implements [signature.Signer].
func (k *tufKey) SignMessage(r io.Reader, _ ...signature.SignOption) ([]byte, error) {
	message, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}

	var sig []byte
	sig, k.err = k.Sign(nil, message, crypto.Hash(0))
	return sig, k.err
}

// put signs m, writes it to a file in metadata/, and returns its text.
func put[T metadata.Roles](
	s signer, file string, m *metadata.Metadata[T], keys ...crypto.Signer,
) ([]byte, error) {
	text, err := sealed(m, keys...)
	if err == nil {
		err = writeFile(filepath.Join(s.dir, "metadata", file), text, 0o644)
	}
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", file, err)
	}
	return text, nil
}

// commit signs the targets, then the snapshot that names them, then the
// timestamp that names the snapshot. Before the last, no reader sees any of it.
// between is called right before the last.
func (s signer) commit(to state, between func() error) error {
	to.targets.Signed.Version++
	to.targets.Signed.Expires = s.until(s.expiries.Targets)

	text, err := put(s, fmt.Sprintf("%d.targets.json", to.targets.Signed.Version),
		to.targets, s.keys.Targets)
	if err != nil {
		return err
	}

	to.snapshot.Signed.Version++
	to.snapshot.Signed.Expires = s.until(s.expiries.Snapshot)
	to.snapshot.Signed.Meta["targets.json"] = described(text, to.targets.Signed.Version)

	text, err = put(s, fmt.Sprintf("%d.snapshot.json", to.snapshot.Signed.Version), to.snapshot,
		s.keys.Snapshot)
	if err != nil {
		return err
	}

	to.timestamp.Signed.Meta["snapshot.json"] = described(text, to.snapshot.Signed.Version)
	if err := between(); err != nil {
		return err
	}

	return s.stamp(to)
}

// stamp signs a new timestamp.
func (s signer) stamp(to state) error {
	to.timestamp.Signed.Version++
	to.timestamp.Signed.UnrecognizedFields = map[string]any{
		repository.SignedField: s.now.UTC().Format(time.RFC3339),
	}
	to.timestamp.Signed.Expires = s.until(s.expiries.Timestamp)
	_, err := put(s, "timestamp.json", to.timestamp, s.keys.Timestamp)
	return err
}

func described(text []byte, version int64) *metadata.MetaFiles {
	m := metadata.MetaFile(version)
	sum := sha256.Sum256(text)
	m.Length = int64(len(text))
	m.Hashes = metadata.Hashes{"sha256": sum[:]}
	return m
}

// noMetadata says why a repository has no metadata.
func noMetadata(dir string) string {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return "there is no such directory"
	case !info.IsDir():
		return "a file, not a directory"
	}
	return "there is no metadata/ in it"
}

// Lock keeps other publishers away: of two at once, one would be lost.
func Lock(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "metadata", ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if isMissing(err) {
		return nil, hint.With(
			fault.With(fmt.Errorf("repository %s: %s", dir, noMetadata(dir)), fault.NotARepository),
			"`loamctl bundle BUILD_DIR --init` makes a new repository")
	}
	if err != nil {
		return nil, fmt.Errorf("repository %s: %w", dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fault.With(fmt.Errorf("repository %s: another process publishes: %w", dir, err),
			fault.InUse)
	}
	return func() { f.Close() }, nil
}
