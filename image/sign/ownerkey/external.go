package ownerkey

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// External signs with ed25519 keys that no file has. They sign releases and
// machine.yaml.
type External struct {
	Tokens
	// By is how the keys are reached: the PKCS #11 URI (RFC 7512) of a token
	// whose keys have the names of the files, or of one key; or else a command of
	// sh(1).
	By string

	// token is opened by the first key: its PIN is asked for once.
	token *token
}

// Key returns the private key of the public one. name is the name of the file
// that has the public key, without its ending.
func (e *External) Key(name string, public ed25519.PublicKey) (crypto.Signer, error) {
	if !InToken(e.By) {
		return external{name, public, e.command(name)}, nil
	}

	sign := func(message []byte) ([]byte, error) {
		key, err := e.inToken(name)
		if err != nil {
			return nil, err
		}
		return key.message(message)
	}
	return external{name, public, sign}, nil
}

// Public returns the public key of that name, as PEM. Only a token knows it.
func (e *External) Public(name string) ([]byte, error) {
	key, err := e.inToken(name)
	if err != nil {
		return nil, err
	}

	return key.openssl(nil, nil, "pkey", "-pubin", "-in", key.uri, "-passin", "fd:3", "-pubout")
}

// inToken returns the key of that name.
func (e *External) inToken(name string) (token, error) {
	if e.token == nil {
		opened, err := e.reachable(e.By)
		if err != nil {
			return token{}, err
		}
		e.token = &opened
	}
	return e.token.key(name), nil
}

// command returns what signs by a command: it has the message on its standard
// input and the name of the key in LOAM_KEY, and prints the signature, 64 bytes.
func (e *External) command(name string) func(message []byte) ([]byte, error) {
	return func(message []byte) ([]byte, error) {
		ctx := e.Context
		if ctx == nil {
			ctx = context.Background()
		}

		cmd := exec.CommandContext(ctx, "sh", "-c", e.By)
		cmd.Env = append(os.Environ(), "LOAM_KEY="+name)
		cmd.Stdin = bytes.NewReader(message)
		cmd.Stderr = os.Stderr // It may ask for something.

		sig, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("command %q: %w", e.By, err)
		}
		return sig, nil
	}
}

// external is a key that sign reaches.
type external struct {
	name   string
	public ed25519.PublicKey
	sign   func(message []byte) ([]byte, error)
}

// Public implements [crypto.Signer].
func (e external) Public() crypto.PublicKey { return e.public }

// Sign implements [crypto.Signer]. The message is not hashed before. What is not
// a signature by this key is an error: nodes would refuse it.
func (e external) Sign(_ io.Reader, message []byte, o crypto.SignerOpts) ([]byte, error) {
	if o.HashFunc() != 0 {
		return nil, errors.New("an ed25519 key signs messages, not digests")
	}

	sig, err := e.sign(message)
	if err != nil {
		return nil, fmt.Errorf("sign with the key %s: %w", e.name, err)
	}
	if !ed25519.Verify(e.public, message, sig) {
		return nil, hint.With(
			fault.With(fmt.Errorf("sign with the key %s: %d bytes that are not a signature by it",
				e.name, len(sig)), fault.KeyUnfit),
			"is it the private key of %s.pem? A signature has 64 bytes, without base64",
			e.name,
		)
	}
	return sig, nil
}

// key returns the key of that name, or the one that the URI names.
func (t token) key(name string) token {
	attributes := strings.Split(strings.TrimPrefix(t.uri, scheme), ";")
	named := func(a string) bool {
		return strings.HasPrefix(a, "object=") || strings.HasPrefix(a, "id=")
	}
	if !slices.ContainsFunc(attributes, named) {
		t.uri += ";object=" + url.PathEscape(name)
	}
	return t
}

// message signs a message with an ed25519 key. openssl wants it in a file.
func (t token) message(message []byte) ([]byte, error) {
	dir, err := os.MkdirTemp("", "loam-sign")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)

	file := filepath.Join(dir, "message")
	if err := os.WriteFile(file, message, 0o600); err != nil {
		return nil, err
	}
	return t.openssl([]string{dir}, nil, "pkeyutl", "-sign", "-inkey", t.uri, "-passin", "fd:3",
		"-rawin", "-in", file)
}
