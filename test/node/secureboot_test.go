package node

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/test/firmware"
)

// TestSecureBootRefusesWhatWouldNotStart: a machine whose firmware knows this
// system and its loader, and nothing else.
func TestSecureBootRefusesWhatWouldNotStart(t *testing.T) {
	parallel(t, time.Minute)
	b := open(t)
	v2 := next(t)
	if b.manifest.Arch != "amd64" {
		t.Skip("the firmware for arm64 has no Secure Boot")
	}

	u := v2.publish(t, nil)
	m := b.flash(t, b.file(".raw"))
	m.config.Host = true
	m.config.SecureBoot = true
	m.config.FirmwareCode = "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd"
	vars := readFile(t, m.config.FirmwareVars)
	text := readFile(t, filepath.Join(b.tools.Dir, "usr/share/ovmf/PkKek-1-snakeoil.pem"))
	block, _ := pem.Decode(text)
	firmware.Enroll(vars, firmware.SignatureList(string(efivar.X509), string(block.Bytes)),
		slices.Concat(firmware.Digest(t, readFile(t, b.file(".efi"))),
			firmware.Digest(t,
				readFile(t, filepath.Join(b.tools.Dir, loader.Installed(b.manifest.Arch))))), nil)

	if err := os.WriteFile(m.config.FirmwareVars, vars, 0o600); err != nil {
		t.Fatal(err)
	}

	n := m.on(t, map[string]string{"loam.machine": machineYAML(b.manifest.Arch, u.machineYAML())})
	n.shell()
	n.sh("until networkctl list --no-legend | grep -q routable; do sleep 1; done")
	n.sh("until test -e /run/loam/status.json; do sleep 0.2; done")

	got := n.sh("loam upgrade --plan 2>&1 || true")
	if !strings.Contains(got, "the UKI of "+v2.manifest.Version+": it is not signed") ||
		!strings.Contains(got, "--sign-key") {
		t.Errorf("loam upgrade --plan: %s", got)
	}

	n.off()
}
