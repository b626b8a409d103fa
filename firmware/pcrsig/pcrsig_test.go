package pcrsig

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/test/judge"
)

// testSections has every section that the stub measures, and one that it does
// not.
func testSections() uki.Sections {
	var all uki.Sections
	for _, name := range append([]string{Section, uki.SBOM}, measured[:]...) {
		all = append(all, uki.Section{Name: name, Data: []byte("the content of " + name)})
	}
	return all
}

func newKey(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// measure runs systemd-measure on all sections but those that it does not know.
func measure(t *testing.T, sections uki.Sections, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	args = append(args, "--bank=sha256", "--phase=:")
	for _, s := range sections {
		if s.Name == Section || s.Name == uki.SBOM {
			continue
		}
		file := filepath.Join(dir, s.Name)
		if err := os.WriteFile(file, s.Data, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--"+s.Name[1:]+"="+file)
	}
	return judge.Run(t, "systemd-measure", args...)
}

// TestSystemdMeasureSaysTheSame about the value of PCR 11, with all sections and
// with few.
func TestSystemdMeasureSaysTheSame(t *testing.T) {
	all := testSections()
	for _, sections := range []uki.Sections{all, all[:3], all[1:5]} {
		value := Value(sections)
		want := "11:sha256=" + hex.EncodeToString(value[:])
		if out := measure(t, sections, "calculate"); !strings.Contains(out, want) {
			t.Errorf("systemd-measure does not say %s:\n%s", want, out)
		}
	}
}

// TestSystemdMeasureSignsTheSame: the signatures are equal, byte by byte.
func TestSystemdMeasureSignsTheSame(t *testing.T) {
	dir := t.TempDir()
	key := newKey(t, keyBits)
	private := write(t, filepath.Join(dir, "private.pem"), "PRIVATE KEY",
		func() ([]byte, error) { return x509.MarshalPKCS8PrivateKey(key) })
	public := write(t, filepath.Join(dir, "public.pem"), "PUBLIC KEY",
		func() ([]byte, error) { return x509.MarshalPKIXPublicKey(key.Public()) })

	sections := testSections()
	out := measure(t, sections, "sign", "--private-key="+private, "--public-key="+public)
	_, text, _ := strings.Cut(out, "{") // Its log is before that.
	text, _, _ = strings.Cut("{"+text, "\n")
	var theirs Signatures
	if err := json.Unmarshal([]byte(text), &theirs); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	got, err := signatures(Policy(Value(sections)), 0, []crypto.Signer{key})
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != text {
		t.Errorf("ours:\n%s\ntheirs:\n%s", got, text)
	}
	if theirs.Find(&key.PublicKey, Policy(Value(sections))) == nil {
		t.Error("theirs is not valid")
	}
}

func write(t *testing.T, file, kind string, encode func() ([]byte, error)) string {
	t.Helper()
	der, err := encode()
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// image is a UKI of a stub without any code.
func image(t *testing.T) []byte {
	t.Helper()
	stub, err := os.ReadFile(filepath.Join(judge.Dir(t, "LOAM_TOOLS_TREE"),
		"usr/lib/systemd/boot/efi/linuxx64.efi.stub"))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := uki.Build(stub, []uki.Section{
		{Name: ".linux", Data: stub}, // It is an EFI application.
		{Name: ".cmdline", Data: []byte("quiet")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func parse(t *testing.T, image []byte) uki.Sections {
	t.Helper()
	sections, err := uki.Parse(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	return sections
}

// TestSign: the sections of a UKI are those that Check wants, whatever was signed
// before, and nothing is left without keys.
func TestSign(t *testing.T) {
	plain := image(t)
	one, other := newKey(t, keyBits), newKey(t, keyBits)
	signed, err := Sign(plain, []crypto.Signer{one, other})
	if err != nil {
		t.Fatal(err)
	}
	sections := parse(t, signed)
	if err := Check(sections); err != nil {
		t.Error(err)
	}
	text, _ := sections.Section(Section)
	for _, key := range []*rsa.PrivateKey{one, other} {
		if !Signed(text, &key.PublicKey, Policy(Value(sections))) {
			t.Error("one of the keys has not signed it")
		}
	}

	again, err := Sign(signed, []crypto.Signer{one, other})
	if err != nil || !bytes.Equal(again, signed) {
		t.Errorf("signing again makes other bytes: %v", err)
	}
	again, err = Sign(signed, []crypto.Signer{other})
	if err != nil || Check(parse(t, again)) != nil {
		t.Errorf("with another key: %v", err)
	}
	bare, err := Sign(signed, nil)
	if err != nil || Check(parse(t, bare)) != nil || len(parse(t, bare)) != len(parse(t, plain)) {
		t.Errorf("without keys: %v", err)
	}
}

// TestTheEpochOfAUKIIsSigned, and those below, for an index with and without a
// value. systemd ignores them.
func TestTheEpochOfAUKIIsSigned(t *testing.T) {
	key := newKey(t, keyBits)
	for cmdline, want := range map[string]int{
		"quiet":               0,
		"quiet loam.epoch=2":  2,
		"loam.epoch=1000000":  maxEpoch,
		"loam.epoch=-1 quiet": 0,
	} {
		if got := epochOf(uki.Sections{{Name: ".cmdline", Data: []byte(cmdline)}}); got != want {
			t.Errorf("%q has epoch %d, want %d", cmdline, got, want)
		}
	}

	text, err := signatures([32]byte{}, 2, []crypto.Signer{key})
	if err != nil {
		t.Fatal(err)
	}
	for epoch, want := range map[int]bool{1: true, 2: true, 3: false} {
		for _, isWritten := range []bool{false, true} {
			policy := EpochPolicy(&key.PublicKey, epoch, isWritten)
			if Signed(text, &key.PublicKey, policy) != want {
				t.Errorf("epoch %d, written %t: signed %t", epoch, isWritten, !want)
			}
		}
	}
	if keys, err := Keys(text); err != nil || len(keys) != 1 {
		t.Errorf("keys %q, %v", keys, err)
	}
}

func TestCheckRefuses(t *testing.T) {
	key := newKey(t, keyBits)
	signed, err := Sign(image(t), []crypto.Signer{key})
	if err != nil {
		t.Fatal(err)
	}

	changed := parse(t, signed)
	changed[indexOf(changed, ".cmdline")].Data = []byte("init=/bin/sh")
	without := parse(t, signed)
	without[indexOf(without, KeySection)].Name = ".other"
	for want, sections := range map[string]uki.Sections{
		"has not signed this UKI": changed,
		"one without the other":   without,
	} {
		if err := Check(sections); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func indexOf(sections uki.Sections, name string) int {
	for i, s := range sections {
		if s.Name == name {
			return i
		}
	}
	return -1
}

func TestKeysThatATPMMayNotSupport(t *testing.T) {
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []crypto.Signer{newKey(t, 3072), curve} {
		_, err := signatures([32]byte{}, 0, []crypto.Signer{key})
		if err == nil || !strings.Contains(err.Error(), "want an RSA key of 2048 bits") {
			t.Errorf("error %v", err)
		}
	}
}

// TestBitsOfEpochs: an image may have a higher epoch than an index has bits, and
// /init must not end by it.
func TestBitsOfEpochs(t *testing.T) {
	for epoch, want := range map[int]uint64{
		0:            0,
		1:            1,
		3:            7,
		maxEpoch:     math.MaxUint64,
		maxEpoch + 1: math.MaxUint64,
	} {
		if got := EpochBits(epoch); got != want {
			t.Errorf("epoch %d: %#x, want %#x", epoch, got, want)
		}
	}
}
