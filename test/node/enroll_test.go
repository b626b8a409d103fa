package node

import (
	"bytes"
	"crypto/x509"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/firmware/secureboot"
	"github.com/loam-os/loam/image/sign"
	"github.com/loam-os/loam/image/sign/ownerkey"
	"github.com/loam-os/loam/test/keys"
)

// refusedLine is what OVMF, or systemd-boot, says of a program that firmware
// does not start.
var refusedLine = regexp.MustCompile(`(?i)access denied|security violation`)

// TestSecureBootFromTheFirstStart: firmware in setup mode starts an image,
// whose loader enrolls the owner's keys; from then on it starts what the owner
// has signed, and nothing else.
func TestSecureBootFromTheFirstStart(t *testing.T) {
	matrix(t)
	b := open(t)
	if b.manifest.Arch != "amd64" {
		t.Skip("the firmware for arm64 has no Secure Boot")
	}

	pk := keys.New(t, "pk")
	owner := keys.New(t, "owner")
	stranger := keys.New(t, "stranger")

	enroll, err := ownerkey.Authorities{
		PK:  pk.Signer,
		KEK: pk.Signer,
		DB:  []*x509.Certificate{owner.Certificate},
	}.Variables()
	if err != nil {
		t.Fatal(err)
	}

	signed := b.signed(t, sign.Keys{Programs: owner.Signer, Enroll: enroll, When: sign.Force})
	m := signed.securely(t)
	n := m.on(t, map[string]string{"loam.machine": machineYAML(b.manifest.Arch, "")})
	n.shell()
	n.want("od -An -tu1 -j4 /sys/firmware/efi/efivars/SecureBoot-* | tr -d ' '", "1")
	n.want("od -An -tu1 -j4 /sys/firmware/efi/efivars/SetupMode-* | tr -d ' '", "0")
	n.says(func(s status.Status) bool { return s.SecureBoot == string(secureboot.On) })
	n.off()
	others := map[string]build{
		"not signed":                  b,
		"signed by another":           b.signed(t, sign.Keys{Programs: stranger.Signer}),
		"with another byte in UKIs":   signed.tampered(t, "roothash="+b.manifest.RootHash),
		"with another byte in loader": signed.tampered(t, "#### LoaderInfo: systemd-boot "),
	}

	for _, name := range slices.Sorted(maps.Keys(others)) {
		t.Run(name, func(t *testing.T) {
			other := others[name].securely(t)
			err := os.WriteFile(other.config.FirmwareVars,
				readFile(t, m.config.FirmwareVars), 0o600)
			if err != nil {
				t.Fatal(err)
			}

			n := other.on(t, nil)
			n.expect(refusedLine)
			for _, line := range n.Console().Lines() {
				if verifiedLine.MatchString(line.Text) {
					t.Error("the system is started")
				}
			}
		})
	}
}

// signed is a copy of the build that is signed.
func (b build) signed(t *testing.T, by sign.Keys) build {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "build")
	out, err := exec.Command("cp", "-r", "--sparse=always", b.dir, dir).CombinedOutput()
	if err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}

	if _, err := sign.Build(t.Context(), dir, by, sign.Silent{}); err != nil {
		t.Fatal(err)
	}

	signed := buildIn(t, dir)
	signed.tools = b.tools
	return signed
}

// securely is a machine whose firmware can keep its variables from the system,
// and has none.
func (b build) securely(t *testing.T) *machine {
	t.Helper()
	m := b.flash(t, b.file(".raw"))
	m.config.SecureBoot = true
	m.config.FirmwareCode = "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd"
	return m
}

// tampered is the disk of the build with another byte wherever the ESP has that
// text.
func (b build) tampered(t *testing.T, text string) build {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk.raw")
	out, err := exec.Command("cp", "--sparse=always", b.file(".raw"), disk).CombinedOutput()
	if err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}

	f, err := os.OpenFile(disk, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	esp := make([]byte, 64<<20) // All of its files are at its start.
	if _, err := f.ReadAt(esp, b.manifest.Partitions[0].Start); err != nil {
		t.Fatal(err)
	}

	changed := bytes.ReplaceAll(esp, []byte(text), []byte("X"+text[1:]))
	if bytes.Equal(esp, changed) {
		t.Fatalf("%q is not there", text)
	}
	if _, err := f.WriteAt(changed, b.manifest.Partitions[0].Start); err != nil {
		t.Fatal(err)
	}

	b.dir = filepath.Dir(disk)
	return b
}
