package boot

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/pcrsig"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/test/firmware"
)

// TestSystemsThatAKeyHasSigned: one without the signature, in either slot or for
// recovery, is enough for a key of the TPM that opens the state for all.
func TestSystemsThatAKeyHasSigned(t *testing.T) {
	const (
		first    = bootentry.Dir + "/loam-node-os_1.0.0_x86-64.efi"
		second   = bootentry.Dir + "/loam-node-os_2.0.0_x86-64+3-0.efi"
		recovery = loader.RecoveryUKI
		mine     = `{"sha256":[{"pkfp":"other"},{"pkfp":"mine"}]}`
		other    = `{"sha256":[{"pkfp":"other"}]}`
	)

	for _, tt := range []struct {
		name string
		on   map[string]string
		want bool
	}{
		{"all", map[string]string{first: mine, second: mine, recovery: mine}, true},
		{"no recovery entry", map[string]string{first: mine}, true},
		{"the second is not", map[string]string{first: mine, second: ""}, false},
		{"the second by another", map[string]string{first: mine, second: other}, false},
		{"the recovery entry is not", map[string]string{first: mine, recovery: ""}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var files []esp.File
			for path, signatures := range tt.on {
				sections := []uki.Section{{Name: ".linux", Data: []byte("linux")}}
				if signatures != "" {
					sections = append(sections,
						uki.Section{Name: pcrsig.Section, Data: []byte(signatures)})
				}
				files = append(files, esp.File{Path: path, Data: firmware.PE(sections...)})
			}

			got, err := allSigned(writeESP(t, files), "mine")
			if err != nil || got != tt.want {
				t.Errorf("%t, %v, want %t", got, err, tt.want)
			}
		})
	}
}

// writeESP returns the name of an ESP with the files.
func writeESP(t *testing.T, files []esp.File) string {
	t.Helper()
	const size = 528 << 20
	name := filepath.Join(t.TempDir(), "esp")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if err := esp.Write(f, size, 512, 1, files); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestSignedPolicyOfTheStubIsRead(t *testing.T) {
	root := t.TempDir()
	if _, _, err := readSigned(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a UKI without a policy: %v", err)
	}

	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{
		pcrsig.SignaturesPath: []byte(`{"sha256":[{"pkfp":"mine"}]}`),
		pcrsig.KeyPath:        pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
	} {
		if err := os.MkdirAll(filepath.Dir(root+path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	signed, got, err := readSigned(root)
	if err != nil || !key.PublicKey.Equal(got) || len(signed.SHA256) != 1 {
		t.Errorf("%+v, %v, %v", signed, got, err)
	}
}
