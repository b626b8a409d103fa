package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/machine"
)

// authority is a new certificate authority, as PEM.
func authority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// An operator's new machine.yaml brings back a node whose authorities were
// rotated while it was off, and a configuration that rotates them holds without
// a new one.
func TestAuthoritiesOfMachineYAMLAndOfTheConfiguration(t *testing.T) {
	one, other := authority(t), authority(t)
	for _, test := range []struct{ name, machine, file, want string }{
		{"machine.yaml alone", one, "", one},
		{"both", one, other, one + other},
		{"both, without a newline between", one[:len(one)-1], other, one + other},
		{"the same twice", one, one, one},
		{"one of two", one + other, other, one + other},
		{"a file that has no certificate", one, "a configuration with a typo", one},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(agentCA)), 0o755); err != nil {
				t.Fatal(err)
			}
			if test.file != "" {
				err := os.WriteFile(filepath.Join(dir, agentCA), []byte(test.file), 0o600)
				if err != nil {
					t.Fatal(err)
				}
			}

			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()

			c, _, _, err := clusterOf(
				machine.Source{Cluster: &machine.Cluster{CA: test.machine}},
				root,
			)
			if diff := cmp.Diff(test.want, string(c.CA)); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}
