package node

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/pcrsig"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/firmware"
	"github.com/loam-os/loam/test/judge"
)

var (
	recoveryLine  = regexp.MustCompile(`recovery key of this node's state is ([A-Z2-7-]{39})`)
	lockedLine    = regexp.MustCompile(`state partition \S+: no key opens it: (.*)`)
	notOpenPage   = regexp.MustCompile(`health +not well: the encrypted state is not open`)
	otherTPMText  = regexp.MustCompile(`this TPM did not seal it`)
	switchedOff   = regexp.MustCompile(`Secure Boot was on, and is off`)
	encryptedYAML = "source: {credential: {name: loam.config}}\nstate: {encrypt: tpm}\n"
)

// TestEncryptedState: a new node encrypts its state, the TPM opens it at each
// boot, and it stays shut where Secure Boot is off, on another machine, and for
// the running system. The recovery key opens it there. A reset drops both keys.
func TestEncryptedState(t *testing.T) {
	judge.Long(t, "agent/crypt, and partitions/luks with cryptsetup as the judge")
	b := open(t)
	if b.manifest.Arch != "amd64" {
		t.Skip("the firmware for arm64 has no Secure Boot")
	}

	m := b.flash(t, b.file(".raw"))
	unlocked := readFile(t, m.config.FirmwareVars)
	m.secure()
	m.newTPM("tpm")

	credentials := map[string]string{
		"loam.machine": machineYAML(b.manifest.Arch, encryptedYAML),
		"loam.config":  string(readFile(t, "../../examples/hello.yaml")),
	}

	n := m.on(t, credentials)
	recovery := n.expect(recoveryLine)[1]
	generation := n.applied()
	n.shell()
	n.encryptedBy("tpm")
	n.want("journalctl -b --grep "+recovery+" | grep -c "+recovery+" || true", "0")
	n.want("head -c 4 /dev/disk/by-partlabel/loam-state", "LUKS")
	n.off()

	n = m.on(t, credentials)
	n.shell()
	n.encryptedBy("tpm")
	n.says(func(s status.Status) bool {
		return s.Generation == generation && s.Encryption == "tpm"
	})
	n.off()

	t.Run("Secure Boot is off", func(t *testing.T) {
		other := *m
		other.config.FirmwareVars = filepath.Join(m.config.Dir, "unlocked.fd")
		if err := os.WriteFile(other.config.FirmwareVars, unlocked, 0o600); err != nil {
			t.Fatal(err)
		}
		n := other.on(t, credentials)
		if got := n.expect(lockedLine)[1]; !switchedOff.MatchString(got) {
			t.Errorf("it says %q", got)
		}
		n.expect(notOpenPage)
		n.shell()
		n.want("findmnt -no FSTYPE /var", "tmpfs")
		n.says(func(s status.Status) bool {
			return s.Repair != nil && s.Repair.Code == fault.StateLocked
		})
		n.off()
	})

	m.newTPM("other")
	t.Run("on another machine", func(t *testing.T) {
		n := m.on(t, credentials)
		if got := n.expect(lockedLine)[1]; !otherTPMText.MatchString(got) {
			t.Errorf("it says %q", got)
		}
		_ = n.Kill()
	})

	credentials["loam.state-key"] = recovery + "\n"
	n = m.on(t, credentials)
	n.shell()
	n.encryptedBy("recovery")
	n.off()

	delete(credentials, "loam.state-key")
	n = m.on(t, credentials)
	n.shell()
	n.encryptedBy("tpm")

	fmt.Fprintln(n.Shell(), "loam reset --yes")
	if again := n.expect(recoveryLine)[1]; again == recovery {
		t.Error("the key is the same after a reset")
	}
	n.shell()
	n.encryptedBy("tpm")
	n.says(func(s status.Status) bool {
		return s.Reset != nil && s.Reset.Done && s.Generation == ""
	})
	n.off()
}

// secure switches Secure Boot on, with firmware that starts this system and its
// loader and nothing else.
func (m *machine) secure() {
	m.t.Helper()
	m.config.SecureBoot = true
	m.config.FirmwareCode = "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd"

	vars := readFile(m.t, m.config.FirmwareVars)
	text := readFile(m.t, filepath.Join(m.build.tools.Dir, "usr/share/ovmf/PkKek-1-snakeoil.pem"))
	block, _ := pem.Decode(text)
	firmware.Enroll(vars, firmware.SignatureList(string(efivar.X509), string(block.Bytes)),
		slices.Concat(firmware.Digest(m.t, readFile(m.t, m.build.file(".efi"))),
			firmware.Digest(m.t, readFile(m.t,
				filepath.Join(m.build.tools.Dir, loader.Installed(m.build.manifest.Arch))))), nil)
	if err := os.WriteFile(m.config.FirmwareVars, vars, 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// newTPM gives the machine a TPM that has sealed nothing yet.
func (m *machine) newTPM(name string) {
	m.t.Helper()
	m.config.TPM = filepath.Join(m.config.Dir, name)
	if err := os.Mkdir(m.config.TPM, 0o700); err != nil {
		m.t.Fatal(err)
	}
}

// encryptedBy fails unless that key has opened the state, and /var is on it.
func (n *node) encryptedBy(key string) {
	n.t.Helper()
	record := n.sh("cat " + boot.RecordPath)
	if !strings.Contains(record, `"encryption":"`+key+`"`) {
		n.t.Fatalf("the state is not opened by %s: %s", key, record)
	}
	n.want("stat -c %Hd:%Ld /var", n.sh("cat /sys/block/dm-1/dev"))
	n.want("cat /sys/block/dm-1/dm/name", "state")
}

// TestASignedPolicyOpensTheState: the TPM gives the key of the state to systems
// that the key for PCR 11 has signed, and PCR 11 is what was predicted.
func TestASignedPolicyOpensTheState(t *testing.T) {
	matrix(t)
	b := open(t)
	key := newPCRKey(t)
	plain := readFile(t, b.file(".efi"))
	signed := signUKI(t, plain, key)
	other := signUKI(t, b.rebuilt(t, withCmdline("loam.test=1")(t)), key)

	m := damaged(t, func(m *machine, disk *os.File) { // For its raw disk.
		if err := disk.Truncate(8 << 30); err != nil {
			t.Fatal(err)
		}
		m.replaceUKI(signed)
	})
	m.newTPM("tpm")
	credentials := map[string]string{
		"loam.machine": machineYAML(b.manifest.Arch, "state: {encrypt: tpm}\n"),
	}

	n := m.on(t, credentials)
	n.ended() // to be encrypted
	n = m.on(t, credentials)
	n.shell()
	n.encryptedBy("tpm")
	n.signedBy(key)
	sections, err := uki.Parse(bytes.NewReader(signed))
	if err != nil {
		t.Fatal(err)
	}
	value := pcrsig.Value(sections)
	n.want("tr A-F a-f </sys/class/tpm/tpm0/pcr-sha256/11", hex.EncodeToString(value[:]))
	n.off()

	m.replaceUKI(plain)
	n = m.on(t, credentials)
	if got := n.expect(lockedLine)[1]; !strings.Contains(got, "is not signed by the key") {
		t.Errorf("it says %q", got)
	}
	_ = n.Kill()

	m.replaceUKI(other)
	n = m.on(t, credentials)
	n.shell()
	n.encryptedBy("tpm")
	n.signedBy(key)
	n.off()
}

// TestTheDataVolumeOfAnEncryptedNode is encrypted, too. It is mounted at each
// start, and a reset makes another.
func TestTheDataVolumeOfAnEncryptedNode(t *testing.T) {
	matrix(t)
	b := open(t)
	m := b.flash(t, b.file(".raw"))
	m.newTPM("tpm")
	file := filepath.Join(m.config.Dir, "data")
	disk := dataDisk{"data", 2 << 30, 512}
	err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, disk.size))
	if err != nil {
		t.Fatal(err)
	}
	m.config.Arguments = dataDisks(m.config.Dir, disk)

	const secret = "a secret of a pod, which is long enough to be found"
	given := map[string]string{
		"loam.machine": machineYAML(b.manifest.Arch,
			encryptedYAML+"dataVolume: {minSize: 1Gi, maxSize: 3Gi}\n"),
		"loam.config": kubelet,
	}
	n := m.on(t, given)
	n.expect(recoveryLine)
	n.applied()
	n.shell()
	n.encryptedBy("tpm")
	mounted := "findmnt -no FSTYPE,OPTIONS /var/lib/kubelet | tr -s ' '"
	n.want(mounted, "ext4 rw,noatime,prjquota")
	n.want("cat /sys/block/$(basename $(findmnt -no SOURCE /var/lib/kubelet))/dm/name", "data")
	n.says(func(s status.Status) bool {
		return s.Volume != nil && s.Volume.Size == disk.size && len(s.Volume.Warnings) == 0
	})
	n.sh("echo '" + secret + "' >/var/lib/kubelet/secret; sync")
	n.off()

	raw := readFile(t, file)
	if string(raw[:4]) != "LUKS" || bytes.Contains(raw, []byte(secret)) {
		t.Errorf("the disk begins with %q, or has the secret", raw[:4])
	}

	n = m.on(t, given)
	n.applied()
	n.shell()
	n.want(mounted, "ext4 rw,noatime,prjquota")
	n.want("cat /var/lib/kubelet/secret", secret)

	fmt.Fprintln(n.Shell(), "loam reset --yes")
	n.expect(recoveryLine)
	n.shell()
	n.encryptedBy("tpm")
	n.want("head -c 15 /dev/sda", "LOAM DATA VOLUM")
	n.off()
}

// newPCRKey makes a key for the policy of PCR 11.
func newPCRKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// signUKI returns a UKI with a policy for PCR 11 that the key has signed.
func signUKI(t *testing.T, efi []byte, key *rsa.PrivateKey) []byte {
	t.Helper()
	made, err := pcrsig.Sign(efi, []crypto.Signer{key})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// replaceUKI puts another UKI in the place of the one on the ESP of a raw disk,
// where it is twice.
func (m *machine) replaceUKI(efi []byte) {
	m.t.Helper()
	file := filepath.Join(m.config.Dir, "other.efi")
	if err := os.WriteFile(file, efi, 0o600); err != nil {
		m.t.Fatal(err)
	}
	for _, path := range []string{m.build.manifest.UKI, loader.RecoveryUKI} {
		m.tool("mcopy", "-o", "-i", fmt.Sprint(m.config.Disk, "@@", m.partition(esp)), file,
			"::"+path)
	}
}

// signedBy fails unless the TPM wants a system that the key has signed.
func (n *node) signedBy(key *rsa.PrivateKey) {
	n.t.Helper()
	record := n.sh("cat " + boot.RecordPath)
	if !strings.Contains(record, `"pcrKey":"`+pcrsig.Fingerprint(&key.PublicKey)+`"`) {
		n.t.Errorf("the TPM wants no signature of the key: %s", record)
	}
}

// TestAnEncryptedNodeUpgradesAndGoesBack: the TPM opens the state for either
// system, without an operator, also where it wants a signature. A release without
// it is refused.
func TestAnEncryptedNodeUpgradesAndGoesBack(t *testing.T) {
	matrix(t)
	key := newPCRKey(t)
	v2 := next(t)
	file := filepath.Join(t.TempDir(), filepath.Base(v2.file(".efi")))
	signed := signUKI(t, readFile(t, v2.file(".efi")), key)
	if err := os.WriteFile(file, signed, 0o600); err != nil {
		t.Fatal(err)
	}
	u := v2.publishUKI(t, file)
	n := prepareUpgradable(t, u)
	n.replaceUKI(signUKI(t, readFile(t, open(t).file(".efi")), key))
	n.newTPM("tpm")
	n.credentials["loam.machine"] += "state: {encrypt: tpm}\n"
	n.start()
	n.ended() // to be encrypted
	n.firstStart()
	n.encryptedBy("tpm")
	n.signedBy(key)

	n.sh("loam upgrade --stay")
	n.reboot()
	n.boots(v2.manifest.Version, "b")
	n.up()
	n.encryptedBy("tpm")
	n.says(func(s status.Status) bool {
		return s.Upgrade != nil && s.Upgrade.Phase == "" && s.Phase == status.Applied
	})

	n.back(open(t).manifest.Version, "a")
	n.encryptedBy("tpm")
	n.signedBy(key)
	n.off()

	n.nowFrom(u, v2.publish(t, nil))
	n.start()
	n.up()
	got := n.sh("loam upgrade --plan 2>&1 || true")
	if !strings.Contains(got, "it is not signed for PCR 11") {
		t.Errorf("loam upgrade --plan: %s", got)
	}
	n.off()
}
