package ownerkey

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/tools"
)

const scheme = "pkcs11:"

// Tokens signs with keys that do not leave their device. openssl of the tools
// tree does it, by its provider for PKCS #11.
type Tokens struct {
	Context context.Context
	// Tools makes the tools tree ready.
	Tools func() (tools.Tree, error)
	// PIN is asked for where a URI has no pin-source.
	PIN func(uri string) ([]byte, error)
}

// config makes openssl find keys in tokens. SoftHSM and openssl tear each other
// down at the end of the process, which then fails (pkcs11-provider(7),
// no-deinit).
const config = `openssl_conf = loam
[loam]
providers = providers
[providers]
default = files
pkcs11 = tokens
[files]
activate = 1
[tokens]
activate = 1
pkcs11-module-quirks = no-deinit
`

// token is a key in a token.
type token struct {
	Tokens
	uri, module string
	pin         []byte
	certificate *x509.Certificate
}

func (t Tokens) open(uri string, certificate *x509.Certificate) (crypto.Signer, error) {
	key, err := t.reachable(uri)
	if err != nil {
		return nil, err
	}
	key.certificate = certificate
	return key, nil
}

// reachable reads the URI of a token, or of a key in it, and its PIN.
func (t Tokens) reachable(uri string) (token, error) {
	path, query, _ := strings.Cut(uri, "?")
	key := token{Tokens: t, uri: path}
	source := ""
	for attribute := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(attribute, "=")
		value, err := url.PathUnescape(value)
		if err != nil {
			return token{}, fmt.Errorf("%s: %s: %w", path, name, err)
		}

		switch name {
		case "":
		case "module-path":
			key.module = value
		case "pin-source":
			source = value
		default: // pin-value would be seen by everybody on this machine.
			return token{}, hint.With(
				fmt.Errorf("%s: attribute %s: not taken", path, name),
				"module-path=FILE names the token's library, pin-source=file:FILE has the "+
					"PIN; else it is asked for",
			)
		}
	}

	if key.module == "" {
		return token{}, hint.With(fmt.Errorf("%s: no library of the token", path),
			"%s?module-path=/usr/lib/softhsm/libsofthsm2.so names SoftHSM's", path)
	}

	var err error
	key.pin, err = t.pin(path, source)
	return key, err
}

func (t Tokens) pin(uri, source string) ([]byte, error) {
	if source == "" {
		return t.PIN(uri)
	}

	file, ok := strings.CutPrefix(source, "file:")
	if !ok {
		return nil, fmt.Errorf("%s: pin-source %q: want file:FILE", uri, source)
	}

	pin, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: PIN: %w", uri, err)
	}

	return bytes.TrimRight(pin, "\r\n"), nil
}

// Public implements [crypto.Signer]. It returns the key of the certificate:
// only a signature shows whether the token has the private key that belongs to
// it.
func (t token) Public() crypto.PublicKey { return t.certificate.PublicKey }

// Sign implements [crypto.Signer]: PKCS #1 v1.5 of a SHA-256 digest.
func (t token) Sign(_ io.Reader, digest []byte, _ crypto.SignerOpts) ([]byte, error) {
	return t.openssl(nil, digest, "pkeyutl", "-sign", "-inkey", t.uri, "-passin", "fd:3",
		"-pkeyopt", "digest:sha256", "-pkeyopt", "rsa_padding_mode:pkcs1")
}

// openssl runs openssl in the tools tree, with these paths beside what the token
// needs, and returns what it prints. File 3 has the PIN, and file 4 the
// configuration.
func (t token) openssl(paths []string, stdin []byte, args ...string) ([]byte, error) {
	tree, err := t.Tools()
	if err != nil {
		return nil, err
	}
	env, binds, err := t.reach(tree)
	if err != nil {
		return nil, err
	}

	cmd := tree.Command(t.Context, append(binds, paths...), "env",
		slices.Concat(env, []string{"OPENSSL_CONF=/dev/fd/4", "openssl"}, args)...)
	for _, content := range [][]byte{t.pin, []byte(config)} {
		r, err := pipe(content)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, r)
	}

	var stdout, stderr bytes.Buffer
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr

	if err := cmd.Run(); err != nil {
		return nil, hint.With(
			fmt.Errorf("%s: openssl: %w: %s", t.uri, err, bytes.TrimSpace(stderr.Bytes())),
			"is the PIN right, and has the token that key?")
	}

	return stdout.Bytes(), nil
}

// reach returns what env(1) must set, and which paths a program must see, so
// that it finds the token. The library is in the tools tree, or on this
// machine.
func (t token) reach(tree tools.Tree) (env, binds []string, err error) {
	env = []string{"PKCS11_PROVIDER_MODULE=" + t.module}
	if conf := os.Getenv("SOFTHSM2_CONF"); conf != "" {
		env = append(env, "SOFTHSM2_CONF="+conf)
		binds = append(binds, filepath.Dir(conf))
	}

	for _, dir := range []string{"/run/pcscd", "/var/lib/softhsm"} {
		if _, err := os.Stat(dir); err == nil {
			binds = append(binds, dir)
		}
	}

	if _, err := os.Stat(filepath.Join(tree.Dir, t.module)); err == nil {
		return env, binds, nil
	}
	if _, err := os.Stat(t.module); err != nil {
		return nil, nil, fmt.Errorf("%s: library: %w", t.uri, err)
	}

	if strings.HasPrefix(t.module, "/usr/") {
		return nil, nil, hint.With(
			fmt.Errorf("%s: library %s: not in the tools tree", t.uri, t.module),
			"copy it to a directory outside of /usr")
	}

	return env, append(binds, filepath.Dir(t.module)), nil
}

// pipe returns the reading end of a pipe that holds content: unlike a file, it
// has no name.
func pipe(content []byte) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()

	_, err = w.Write(content) // Short enough for the pipe to hold it.
	return r, err
}
