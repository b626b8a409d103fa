package image

import (
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/pcrsig"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/image/inspect"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/sign"
	"github.com/loam-os/loam/image/sign/ownerkey"
	"github.com/loam-os/loam/image/update"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/keys"
)

// copied is a build of links to the files of b: signing replaces files, and
// changes none.
func (b build) copied(t *testing.T) build {
	t.Helper()
	return open(t, linked(t, b))
}

// signed is the build, signed by one after the other, with what enrolls them,
// and with the rest of keys.
func (b build) signed(t *testing.T, rest sign.Keys, by ...keys.Pair) build {
	t.Helper()
	for _, key := range by {
		enroll, err := ownerkey.Authorities{
			PK:  key.Signer,
			KEK: key.Signer,
			DB:  []*x509.Certificate{key.Certificate},
		}.Variables()
		if err == nil {
			all := rest
			all.Programs = key.Signer
			all.Enroll = enroll
			all.When = sign.Manual
			_, err = sign.Build(t.Context(), b.dir, all, sign.Silent{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	return open(t, b.dir)
}

// TestASignedBuildTrustsKeys of machine.yaml, in every UKI and in the manifest,
// which verify compares. Signing again leaves them. Every UKI has a policy of PCR
// 11, until the build is signed without its key.
func TestASignedBuildTrustsKeys(t *testing.T) {
	judge.Long(t, "TestSignedBuild has such keys, too, and does not sign again without them")
	b := underTest(t).copied(t)
	pcr := keys.New(t, "pcr").Private
	by := sign.Keys{
		Programs:     keys.New(t, "owner").Signer,
		MachineTrust: "first,second",
		PCR:          []crypto.Signer{pcr},
	}
	if _, err := sign.Build(t.Context(), b.dir, by, sign.Silent{}); err != nil {
		t.Fatal(err)
	}
	open(t, b.dir).checkPCRKeys(t, fingerprint(pcr))

	by.MachineTrust = ""
	by.PCR = nil
	if _, err := sign.Build(t.Context(), b.dir, by, sign.Silent{}); err != nil {
		t.Fatal(err)
	}
	b = open(t, b.dir)
	b.checkPCRKeys(t)

	b.checkTrust(t)
}

// checkTrust fails unless all UKIs trust the keys "first,second", and the
// manifest says so.
func (b build) checkTrust(t *testing.T) {
	t.Helper()
	for name, cmdline := range map[string]string{
		"UKI":     b.manifest.Cmdline,
		"PXE set": b.manifest.LiveCmdline,
	} {
		if strings.Count(cmdline, " loam.trust=first,second ") != 1 {
			t.Errorf("command line of the %s: %s", name, cmdline)
		}
	}
	for _, u := range inspected(t, b.dir).UKIs {
		if !strings.HasPrefix(b.manifest.LiveCmdline, u.Cmdline) {
			t.Errorf("command line of a UKI: %s", u.Cmdline)
		}
	}
}

func fingerprint(key crypto.Signer) string {
	return pcrsig.Fingerprint(key.Public().(*rsa.PublicKey))
}

// checkPCRKeys fails unless these keys, and no others, have signed all UKIs for
// PCR 11, and the index of the update says so.
func (b build) checkPCRKeys(t *testing.T, want ...string) {
	t.Helper()
	ukis := 0
	for name, program := range b.programs(t) {
		sections, err := uki.Parse(strings.NewReader(program))
		if err != nil {
			continue // It is the loader.
		}
		ukis++
		got, keysErr := pcrsig.ReadKeys(strings.NewReader(program))
		if err := errors.Join(keysErr, pcrsig.Check(sections)); err != nil ||
			!slices.Equal(got, want) {
			t.Errorf("%s: signed by %q, %v, want %q", name, got, err, want)
		}
	}
	if ukis < 3 {
		t.Errorf("only %d UKIs", ukis)
	}

	bundle, err := update.Read(t.Context(), b.dir, meter.None)
	if err != nil || !slices.Equal(bundle.Index.PCRKeys, want) {
		t.Errorf("the index names %q, %v, want %q", bundle.Index.PCRKeys, err, want)
	}
}

// TestSignedBuild: all that firmware starts is signed, in all files, and
// everything else is unchanged; every UKI has a policy of PCR 11 and trusts keys
// of machine.yaml. With LOAM_PLACES=1, a build that was signed by
// another key before gives the same bytes.
func TestSignedBuild(t *testing.T) {
	plain := underTest(t)
	key := keys.New(t, "owner")
	other := keys.New(t, "other")
	pcr := keys.New(t, "pcr").Private
	rest := sign.Keys{MachineTrust: "first,second", PCR: []crypto.Signer{pcr}}
	b := plain.copied(t).signed(t, rest, key)
	if os.Getenv("LOAM_PLACES") != "" {
		again := plain.copied(t).signed(t, rest, other, key)
		for _, name := range []string{image.SumsName, image.ManifestName} {
			first := readFile(t, filepath.Join(b.dir, name))
			if first != readFile(t, filepath.Join(again.dir, name)) {
				t.Errorf("%s: signed by another before, it is another", name)
			}
		}
	}

	for _, f := range plain.manifest.Files {
		same := slices.Contains(b.manifest.Files, f)
		_, suffix, _ := strings.Cut(strings.TrimPrefix(f.Name, plain.base(t)), ".")
		want := slices.Contains([]string{"root", "verity", "vmlinuz", "initrd", "spdx.json"},
			suffix)
		if same != want {
			t.Errorf("%s is the same: %v", f.Name, same)
		}
	}

	disk := b.disk(t)
	disk.Table(t)
	disk.FAT(t)
	judge.Run(t, "qemu-img", "compare", "-f", "raw", "-F", "qcow2", b.file(t, ".raw"),
		b.file(t, ".qcow2"))
	b.packedIsTheDisk(t)

	for name, program := range b.programs(t) {
		file := filepath.Join(t.TempDir(), "program.efi")
		if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		judge.Run(t, "sbverify", "--cert", key.CertificateFile, file)
		if im, err := authenticode.ReadFile(file); err != nil || len(im.Signatures) != 1 {
			t.Errorf("%s: %d signatures, %v", name, len(im.Signatures), err)
		}
	}

	b.checkLoaderSignature(t)
	b.checkPCRKeys(t, fingerprint(pcr))
	b.checkTrust(t)
	im := inspected(t, b.dir)
	for name, signers := range map[string][]string{
		"loader": im.Disk.LoaderSigners,
		"UKI":    im.UKIs[0].Signers,
	} {
		if !slices.Equal(signers, []string{"owner"}) {
			t.Errorf("the %s is signed by %v", name, signers)
		}
	}

	own := []string{"owner"}
	diff := cmp.Diff([]inspect.Enrollment{{
		Name: "auto",
		PK:   own,
		KEK:  own,
		DB:   own,
	}},
		im.Disk.Enroll)
	if diff != "" {
		t.Error(diff)
	}

	bundle, err := update.Read(t.Context(), b.dir, meter.None)
	if err != nil || bundle.Index.Signature == nil ||
		len(bundle.Index.Authenticode.Signatures) != 1 {
		t.Errorf("the update bundle is not signed: %v", err)
	}

	conf := b.onESP(t, "loader/loader.conf")
	if strings.Count(conf, "secure-boot-enroll manual\n") != 1 ||
		strings.Count(conf, "secure-boot-enroll") != 1 {
		t.Errorf("loader.conf: %s", conf)
	}
}

// TestSignedSums: what only the sums' signer signs is as it was.
func TestSignedSums(t *testing.T) {
	plain := underTest(t)
	key, keyring := openPGPKey(t)
	b := plain.copied(t)
	m, err := sign.Build(t.Context(), b.dir, sign.Keys{Sums: key}, sign.Silent{})
	if diff := cmp.Diff(plain.manifest, m); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}

	judge.Run(t, "gpg", "--homedir", filepath.Dir(keyring), "--batch", "--no-default-keyring",
		"--keyring", keyring, "--trust-model", "always", "--verify", filepath.Join(b.dir,
			image.SumsSignature), filepath.Join(b.dir, image.SumsName))
}

// TestKeysThatWouldNotStartTheBuildAreNotPutThere: whoever enrolled them would
// have a machine that starts nothing.
func TestKeysThatWouldNotStartTheBuildAreNotPutThere(t *testing.T) {
	b := underTest(t)
	key := keys.New(t, "owner")
	other := keys.New(t, "other")
	enroll, err := ownerkey.Authorities{
		PK:  key.Signer,
		KEK: key.Signer,
		DB:  []*x509.Certificate{other.Certificate},
	}.Variables()
	if err != nil {
		t.Fatal(err)
	}

	_, err = sign.Build(t.Context(), linked(t, b),
		sign.Keys{Programs: key.Signer, Enroll: enroll, When: sign.Force}, sign.Silent{})
	if err == nil || !strings.Contains(err.Error(), "would not start the signed programs") {
		t.Errorf("signed: %v", err)
	}
}

// programs are the programs that firmware starts, by path.
func (b build) programs(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, f := range b.manifest.Files {
		if strings.HasSuffix(f.Name, ".efi") {
			all[f.Name] = readFile(t, filepath.Join(b.dir, f.Name))
		}
	}

	for _, path := range []string{
		loader.Path(b.manifest.Arch), b.manifest.UKI, loader.RecoveryUKI,
	} {
		all[path] = b.onESP(t, path)
	}

	return all
}

// base is what the names of all files begin with.
func (b build) base(t *testing.T) string { return strings.TrimSuffix(b.name(t, ".raw"), ".raw") }

// onESP is the content of a file there.
func (b build) onESP(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.Open(b.file(t, ".raw"))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()

	part := b.partition(t, partitions.ESP)
	content, err := esp.Read(io.NewSectionReader(raw, part.Start, part.Size),
		b.manifest.SectorSize, path)
	if err != nil {
		t.Fatal(err)
	}

	return string(content)
}

// checkLoaderSignature: what the UKI has makes of the loader in the root file
// system that on the ESP.
func (b build) checkLoaderSignature(t *testing.T) {
	t.Helper()
	signature, err := uki.ReadSection(strings.NewReader(b.programs(t)[b.manifest.UKI]),
		uki.LoaderSignature)
	if err != nil {
		t.Fatal(err)
	}

	installed := readFile(t,
		filepath.Join(judge.Dir(t, "LOAM_TOOLS_TREE"), loader.Installed(b.manifest.Arch)))
	signed, err := authenticode.Attach([]byte(installed), signature)
	if err != nil || string(signed) != b.programs(t)[loader.Path(b.manifest.Arch)] {
		t.Errorf("the loader is another: %v", err)
	}
}

// TestABuildThatIsNotWholeIsNotSigned, and stays as it is.
func TestABuildThatIsNotWholeIsNotSigned(t *testing.T) {
	b := underTest(t)
	dir := linked(t, b)
	flip(t, dir, b.name(t, ".root"), 4096)
	before := readFile(t, filepath.Join(dir, image.SumsName))

	_, err := sign.Build(t.Context(), dir, sign.Keys{Programs: keys.New(t, "owner").Signer},
		sign.Silent{})
	if err == nil || !strings.Contains(err.Error(), "data block 1 ") {
		t.Errorf("signed: %v", err)
	}

	if readFile(t, filepath.Join(dir, image.SumsName)) != before {
		t.Error("it is another")
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
