// Package openpgp signs lists of digests, as systemd-sysupdate and gpgv verify
// them: by a detached signature (RFC 9580).
package openpgp

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Key signs.
type Key struct {
	entity *openpgp.Entity
	key    openpgp.Key
}

// ReadKey reads a file with one private key, armored or not. The key must give
// equal signatures each time: RSA and EdDSA do. now is the time, as keys
// expire. unlock returns the passphrase of a protected key.
func ReadKey(file string, now time.Time, unlock func(file string) ([]byte, error)) (Key, error) {
	all, err := read(file)
	if err != nil {
		return Key{}, err
	}

	if len(all) != 1 || all[0].PrivateKey == nil {
		return Key{}, hint.With(
			fault.With(fmt.Errorf("%s: want one private OpenPGP key", file), fault.KeyUnfit),
			"`gpg --export-secret-keys KEY > %s` writes it", file)
	}

	k := Key{entity: all[0]}
	var ok bool
	k.key, ok = k.entity.SigningKey(now)
	if !ok || k.key.PrivateKey == nil {
		return Key{}, fault.With(
			fmt.Errorf("%s: no private key in it signs, or it has expired", file), fault.KeyUnfit)
	}

	switch k.key.PublicKey.PubKeyAlgo {
	case packet.PubKeyAlgoRSA, packet.PubKeyAlgoRSASignOnly, packet.PubKeyAlgoEdDSA,
		packet.PubKeyAlgoEd25519:
	default:
		return Key{}, hint.With(
			fault.With(fmt.Errorf("%s: a key of algorithm %d signs the same in another way each time",
				file, k.key.PublicKey.PubKeyAlgo), fault.KeyUnfit),
			"take one of RSA or Ed25519")
	}

	if k.key.PublicKey.Version != 4 {
		return Key{}, fault.With(
			fmt.Errorf("%s: a key of version %d: want version 4, which GnuPG and so systemd know",
				file, k.key.PublicKey.Version), fault.KeyUnfit)
	}

	if k.key.PrivateKey.Encrypted {
		passphrase, err := unlock(file)
		if err == nil {
			err = fault.With(k.key.PrivateKey.Decrypt(passphrase), fault.KeyUnfit)
		}
		if err != nil {
			return Key{}, fmt.Errorf("%s: %w", file, err)
		}
	}

	return k, nil
}

// Sign is a detached signature, binary. It says that it was made when the key
// was last changed, as the time is in it, and the same text has one signature.
func (k Key) Sign(text []byte) ([]byte, error) {
	salted := false
	var b bytes.Buffer
	err := openpgp.DetachSign(&b, k.entity, bytes.NewReader(text), &packet.Config{
		Time:                                  k.changed,
		SigningKeyId:                          k.key.PublicKey.KeyId,
		NonDeterministicSignaturesViaNotation: &salted,
	})
	if err != nil {
		return nil, fmt.Errorf("OpenPGP signature: %w", err)
	}

	return b.Bytes(), nil
}

// changed is when the key got what it says of itself now, such as when it
// expires; before, it does not sign.
func (k Key) changed() time.Time {
	at := k.key.SelfSignature.CreationTime
	if primary, _ := k.entity.PrimarySelfSignature(); primary.CreationTime.After(at) {
		at = primary.CreationTime
	}
	return at
}

// String names the key by its fingerprint.
func (k Key) String() string { return fmt.Sprintf("%X", k.key.PublicKey.Fingerprint) }

// CheckKeys returns an error if Verify would find no keys in a file.
func CheckKeys(file string) error {
	_, err := read(file)
	return err
}

// Verify reads public keys from a file, and says which of them has signed the
// text.
func Verify(file string, text, signature []byte, now time.Time) (string, error) {
	all, err := read(file)
	if err != nil {
		return "", err
	}

	by, err := openpgp.CheckDetachedSignature(all, bytes.NewReader(text),
		bytes.NewReader(signature), &packet.Config{Time: func() time.Time { return now }})
	if err != nil {
		return "", fmt.Errorf("OpenPGP signature: %w", err)
	}

	return fmt.Sprintf("%X", by.PrimaryKey.Fingerprint), nil
}

// Signer is the key ID that a signature names, 16 hex digits. Whether it is by
// that key, Verify says.
func Signer(signature []byte) (string, error) {
	p, err := packet.Read(bytes.NewReader(signature))
	if err != nil {
		return "", fmt.Errorf("OpenPGP signature: %w", err)
	}

	s, ok := p.(*packet.Signature)
	if !ok || s.IssuerKeyId == nil {
		return "", fmt.Errorf("OpenPGP signature: it names no key")
	}

	return fmt.Sprintf("%016X", *s.IssuerKeyId), nil
}

// armored begins the text form of a key: a file may have several, one after the
// other.
const armored = "-----BEGIN PGP"

func read(file string) (all openpgp.EntityList, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}

	parts := []io.Reader{bytes.NewReader(text)}
	if strings.HasPrefix(string(text), armored) {
		parts = nil
		for part := range strings.SplitSeq(string(text[len(armored):]), armored) {
			block, err := armor.Decode(strings.NewReader(armored + part))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			parts = append(parts, block.Body)
		}
	}

	for _, part := range parts {
		some, err := openpgp.ReadKeyRing(part)
		if err != nil {
			return nil, hint.With(
				fault.With(fmt.Errorf("%s: no OpenPGP keys: %w", file, err), fault.KeyUnfit),
				"`gpg --export KEY > FILE` writes a public key, --export-secret-keys a private one")
		}
		all = append(all, some...)
	}

	return all, nil
}
