package node

import (
	"encoding/hex"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/test/firmware"
)

// digest is what db has of an image that it knows by its digest.
func digest(t *testing.T, file string) []byte {
	t.Helper()
	im, err := authenticode.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := hex.DecodeString(im.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return firmware.SignatureList(string(efivar.SHA256), string(sum))
}

// TestSecureBootRefusesWhatWouldNotStart: a machine whose firmware knows this system and its loader, and nothing else.
func TestSecureBootRefusesWhatWouldNotStart(t *testing.T) {
	b, v2 := open(t), next(t)
	if b.manifest.Arch != "amd64" {
		t.Skip("the firmware for arm64 has no Secure Boot")
	}
	u := v2.publish(t, nil)
	m := b.flash(t, b.file(".raw"))
	m.config.Host, m.config.SecureBoot, m.config.FirmwareCode = true, true, "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd"
	vars, err := os.ReadFile(m.config.FirmwareVars)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(b.tools.Dir, "usr/share/ovmf/PkKek-1-snakeoil.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	firmware.Enroll(vars, firmware.SignatureList(string(efivar.X509), string(block.Bytes)),
		slices.Concat(digest(t, b.file(".efi")), digest(t, filepath.Join(b.tools.Dir, loader.Installed(b.manifest.Arch)))), nil)
	if err := os.WriteFile(m.config.FirmwareVars, vars, 0o600); err != nil {
		t.Fatal(err)
	}
	n := m.on(t, map[string]string{"loam.machine": machineYAML(b.manifest.Arch, u.machineYAML())})
	n.shell()
	n.sh("until test -e /run/loam/status.json; do sleep 0.2; done")
	got := n.sh("loam upgrade --plan 2>&1 || true")
	if !strings.Contains(got, "the UKI of "+v2.manifest.Version+": it is not signed") || !strings.Contains(got, "--sign-key") {
		t.Errorf("loam upgrade --plan: %s", got)
	}
	n.off()
}
