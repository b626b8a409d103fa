// Package sign signs images with keys of their owner: programs that firmware starts, and root hashes. It runs systemd-sbsign and openssl of
// the tools tree, which know keys in files (PKCS#8, PEM) and in tokens (PKCS#11).
package sign

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/image/tools"
	"github.com/loam-os/loam/partitions/verity"
)

// Signer signs with one key.
type Signer struct {
	Tools tools.Tree

	key, certificate string // absolute paths, or a URI
	der              []byte // of the certificate
}

// Open reads the certificate, a PEM file. The key is a file, or a PKCS#11 URI (RFC 7512).
func Open(key, certificate string) (s Signer, err error) {
	if s.certificate, err = filepath.Abs(certificate); err != nil {
		return s, err
	}
	if s.der, err = readPEM(certificate, "CERTIFICATE"); err != nil {
		return s, err
	}
	if _, err := x509.ParseCertificate(s.der); err != nil {
		return s, fmt.Errorf("%s: %w", certificate, err)
	}
	if s.key = key; s.token() {
		return s, nil
	}
	if _, err := readPEM(key, "PRIVATE KEY"); err != nil {
		return s, err
	}
	s.key, err = filepath.Abs(key)
	return s, err
}

func readPEM(file, kind string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || !strings.HasSuffix(block.Type, kind) {
		return nil, fmt.Errorf("%s: want a PEM file with a %s\nhint: `openssl req -x509 -newkey rsa:4096 -nodes -keyout key.pem -out certificate.pem -subj /CN=loam -days 3650` makes both", file, kind)
	}
	return block.Bytes, nil
}

func (s Signer) token() bool { return strings.HasPrefix(s.key, "pkcs11:") }

// Program signs a PE file for Secure Boot (Authenticode) and writes it to another. The signature has the time in it: signed twice, the same
// program has two.
func (s Signer) Program(ctx context.Context, from, to string) error {
	args := []string{"sign", "--private-key=" + s.key, "--certificate=" + s.certificate, "--output=" + to}
	if s.token() {
		args = append(args, "--private-key-source=provider:pkcs11")
	}
	if _, err := s.run(ctx, nil, []string{from, filepath.Dir(to)}, "/usr/lib/systemd/systemd-sbsign", append(args, from)...); err != nil {
		return fmt.Errorf("sign %s: %w", filepath.Base(from), err)
	}
	return nil
}

// RootHash makes the content of a verity-sig partition.
func (s Signer) RootHash(ctx context.Context, hash [32]byte) ([]byte, error) {
	args := []string{"smime", "-sign", "-binary", "-noattr", "-nocerts", "-outform", "der", "-inkey", s.key, "-signer", s.certificate}
	if s.token() {
		args = append(args, "-provider", "pkcs11", "-provider", "default")
	}
	pkcs7, err := s.run(ctx, []byte(hex.EncodeToString(hash[:])), nil, "openssl", args...)
	if err != nil {
		return nil, fmt.Errorf("sign the root hash: %w", err)
	}
	return verity.NewSignature(hash, s.der, pkcs7).Encode()
}

// run runs a tool that sees key, certificate and binds, and returns what it prints.
func (s Signer) run(ctx context.Context, stdin []byte, binds []string, name string, args ...string) ([]byte, error) {
	binds = append(binds, s.certificate)
	if !s.token() {
		binds = append(binds, s.key)
	}
	var stdout, stderr bytes.Buffer
	cmd := s.Tools.Command(ctx, binds, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(name), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.Bytes(), nil
}
