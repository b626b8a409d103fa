package roots_test

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/image/repository/roots"
)

// TestANewAuthorityIsHeardOf gives the machine a file after it was asked first.
func TestANewAuthorityIsHeardOf(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	authority := pem.EncodeToMemory(
		&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})

	file, dir := filepath.Join(t.TempDir(), "ca.crt"), t.TempDir()
	write(t, file, nil)
	t.Setenv("SSL_CERT_FILE", file)
	t.Setenv("SSL_CERT_DIR", filepath.Join(dir, "absent")+":"+dir)
	if trusts(t, server.Certificate()) {
		t.Fatal("trusts it before it is told")
	}

	write(t, file, authority)
	if !trusts(t, server.Certificate()) {
		t.Error("in the file: not trusted")
	}
	write(t, file, nil)
	write(t, filepath.Join(dir, "site.pem"), authority)
	if !trusts(t, server.Certificate()) {
		t.Error("in a directory: not trusted")
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := roots.Machine(); err == nil {
		t.Error("without the file that the environment names: no error")
	}
}

// TestMachine compares with what Go reads on the machine of the test.
func TestMachine(t *testing.T) {
	system, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	machine, err := roots.Machine()
	if err != nil || !machine.Equal(system) {
		t.Errorf("other authorities than Go's, %v", err)
	}
}

func trusts(t *testing.T, c *x509.Certificate) bool {
	t.Helper()
	pool, err := roots.Machine()
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Verify(x509.VerifyOptions{Roots: pool})
	return err == nil
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
