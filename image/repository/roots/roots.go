// Package roots reads the certificate authorities that a machine trusts.
package roots

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// What Go reads on Debian, unless the environment names other paths (crypto/x509,
// root_linux.go and root_unix.go).
const (
	bundle      = "/etc/ssl/certs/ca-certificates.crt"
	directories = "/etc/ssl/certs"
)

// Machine returns the authorities that the machine trusts now.
// [x509.SystemCertPool] reads them once: an agent that runs for months would not
// hear of a new one. It is that where they are at other paths than on Debian.
func Machine() (*x509.CertPool, error) {
	file := cmp.Or(os.Getenv("SSL_CERT_FILE"), bundle)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && file == bundle {
		return x509.SystemCertPool()
	}
	if err != nil {
		return nil, fmt.Errorf("authorities that the machine trusts: %w", err)
	}

	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	for _, dir := range strings.Split(cmp.Or(os.Getenv("SSL_CERT_DIR"), directories), ":") {
		add(pool, dir)
	}
	return pool, nil
}

// add adds the certificates in a directory. What cannot be read, and what is no
// certificate, is left out, as Go does.
func add(pool *x509.CertPool, dir string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		target, err := os.Readlink(path)
		if path == bundle || (err == nil && !strings.Contains(target, "/")) {
			continue // It has the others, or is another name of one.
		}
		text, _ := os.ReadFile(path)
		pool.AppendCertsFromPEM(text)
	}
}
