package firmware

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/firmware/pkcs7"
	"github.com/loam-os/loam/firmware/secureboot"
	"github.com/loam-os/loam/test/judge"
)

// notePort is where an application says that it was started.
const notePort = 0x503

// noted is an application that says its code, and fails.
func noted(code byte) []byte {
	// mov edx, port; mov al, code; out dx, al
	return application(0xba, notePort&0xff, notePort>>8, 0, 0, 0xb0, code, 0xee,
		0x48, 0xb8, 14, 0, 0, 0, 0, 0, 0, 0x80, 0xc3) // mov rax, EFI_NOT_FOUND; ret
}

// identity is a certificate with its key, which are in files, too. None is
// valid any longer.
type identity struct {
	*x509.Certificate
	private *rsa.PrivateKey
	base    string
}

// issue makes one, self-signed if by is nil.
func issue(t *testing.T, dir, name string, authority bool, by *identity) *identity {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}

	id := &identity{&x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Unix(0, 0),
		NotAfter:              time.Unix(1e9, 0),
		IsCA:                  authority,
		BasicConstraintsValid: true,
	}, key, filepath.Join(dir, name)}

	if by == nil {
		by = id
	}

	der, err := x509.CreateCertificate(rand.Reader, id.Certificate, by.Certificate,
		key.Public(), by.private)
	if err == nil {
		id.Certificate, err = x509.ParseCertificate(der)
	}

	err = errors.Join(err,
		os.WriteFile(id.base+".key",
			pem.EncodeToMemory(&pem.Block{
				Type:  "RSA PRIVATE KEY",
				Bytes: x509.MarshalPKCS1PrivateKey(key),
			}), 0o600), os.WriteFile(id.base+".pem",
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	if err != nil {
		t.Fatal(err)
	}

	return id
}

// sign signs an image by the first of a chain; the others are put in.
func sign(t *testing.T, image []byte, chain ...*identity) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image")
	args := []string{
		"--key", chain[0].base + ".key", "--cert", chain[0].base + ".pem", "--output", file,
	}

	for _, up := range chain[1:] {
		args = append(args, "--addcert", up.base+".pem")
	}

	if err := os.WriteFile(file, image, 0o600); err != nil {
		t.Fatal(err)
	}

	judge.Run(t, "sbsign", append(args, file)...)
	signed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	return signed
}

// signAgain replaces the signature of an image.
func signAgain(t *testing.T, image []byte, by *identity) []byte {
	t.Helper()
	key, err := pkcs7.NewSigner(by.Certificate, by.private)
	if err != nil {
		t.Fatal(err)
	}

	signature, err := authenticode.Sign(image, key)
	if err == nil {
		image, err = authenticode.Attach(image, signature)
	}

	if err != nil {
		t.Fatal(err)
	}

	return image
}

func readImage(t *testing.T, b []byte) authenticode.Image {
	t.Helper()
	im, err := authenticode.Read(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return im
}

func digestOf(t *testing.T, b []byte) []byte {
	t.Helper()
	sum, err := hex.DecodeString(readImage(t, b).SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return SignatureList(string(efivar.SHA256), string(sum))
}

func certificate(id *identity) []byte { return SignatureList(string(efivar.X509), string(id.Raw)) }

// revocation is the revocation of a certificate, for all times.
func revocation(id *identity) []byte {
	sum := sha256.Sum256(id.RawTBSCertificate)
	return SignatureList(string(efivar.X509SHA256), string(sum[:])+string(make([]byte, 16)))
}

// firmwareStarts boots a machine with Secure Boot on from one image after the
// other, and says which it starts. The last ends the machine.
func firmwareStarts(t *testing.T, db, dbx []byte, owner *identity, images [][]byte) []byte {
	t.Helper()
	m := newMachine(t, Sectors{}, 0)
	vars, err := os.ReadFile(m.file("vars"))
	if err != nil {
		t.Fatal(err)
	}

	Enroll(vars, certificate(owner), db, dbx)
	err = errors.Join(os.WriteFile(m.file("vars"), vars, 0o600),
		os.WriteFile(m.file("notes"), nil, 0o600), os.WriteFile(m.file("console"), nil, 0o600))
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35,smm=on,vmport=off",
		"-accel", "tcg", "-cpu", "max,la57=off",
		"-m", "256", "-serial", "file:" + m.file("console"), "-global",
		"driver=cfi.pflash01,property=secure,value=on",
		"-device", fmt.Sprintf("isa-debug-exit,iobase=%#x,iosize=1", exitPort),
		"-chardev", "file,id=notes,path=" + m.file("notes"), "-device",
		fmt.Sprintf("isa-debugcon,iobase=%#x,chardev=notes", notePort),
		"-drive",
		"if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.secboot.fd",
		"-drive", "if=pflash,format=raw,unit=1,file=" + m.file("vars"),
	}

	for i, image := range images {
		dir := m.file(fmt.Sprint("disk", i))
		err = errors.Join(err, os.MkdirAll(dir+"/EFI/BOOT", 0o755),
			os.WriteFile(dir+"/EFI/BOOT/BOOTX64.EFI", image, 0o600))
		args = append(args, "-drive",
			fmt.Sprintf("if=none,id=d%d,format=raw,readonly=on,file=fat:%s",
				i, dir), "-device", fmt.Sprintf("virtio-blk-pci,drive=d%d,bootindex=%d", i, i+1))
	}
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	out, err := m.tools.Command(ctx, []string{m.dir}, "qemu-system-x86_64",
		args...).CombinedOutput()
	if exit, is := errors.AsType[*exec.ExitError](err); !is || exit.ExitCode() != 2*1+1 {
		console, _ := os.ReadFile(m.file("console"))
		t.Fatalf("the machine ends with %v\n%s\n%s", err, out, console)
	}

	started, err := os.ReadFile(m.file("notes"))
	if err != nil {
		t.Fatal(err)
	}

	return started
}

// TestOVMFDecidesAlike: OVMF, with Secure Boot on, starts what
// firmware/secureboot says, but for one image.
func TestOVMFDecidesAlike(t *testing.T) {
	judge.Dir(t, "LOAM_TOOLS_TREE") // Keys are made for a second.
	dir := t.TempDir()
	root := issue(t, dir, "root", true, nil)
	mid := issue(t, dir, "intermediate", true, root)
	leaf := issue(t, dir, "leaf", false, mid)
	direct := issue(t, dir, "direct", false, nil)
	child := issue(t, dir, "child", false, direct)
	far := issue(t, dir, "far", true, nil)
	near := issue(t, dir, "near", true, far)
	below := issue(t, dir, "below", false, near)
	stranger := issue(t, dir, "stranger", false, nil)
	revoked := issue(t, dir, "revoked", false, root)
	bad := issue(t, dir, "bad", true, root)
	under := issue(t, dir, "under", false, bad)
	worse := issue(t, dir, "worse", true, root)
	beneath := issue(t, dir, "beneath", false, worse)
	fallen := issue(t, dir, "fallen", true, nil)
	heir := issue(t, dir, "heir", false, fallen)
	images := []struct {
		name  string
		image []byte
	}{
		{
			"by a leaf, with the intermediate that leads to a root in db",
			sign(t, noted(0), leaf, mid),
		},
		{"by a leaf, without it", sign(t, noted(1), leaf)},
		{"by one that is in db itself", sign(t, noted(2), direct)},
		{"by one whose intermediate is in db", sign(t, noted(3), below)},
		{"by one that a leaf in db has issued", sign(t, noted(4), child)},
		{"by a stranger", sign(t, noted(5), stranger)},
		{"not signed", noted(6)},
		{"not signed, its digest is in db", noted(7)},
		{"by a stranger, its digest is in db", sign(t, noted(8), stranger)},
		{"by one whose certificate's digest is in dbx", sign(t, noted(9), revoked)},
		{"by one whose intermediate is in dbx", sign(t, noted(10), under, bad)},
		{"by one whose intermediate is in dbx, and not in it", sign(t, noted(11), under)},
		{"by one whose intermediate's digest is in dbx", sign(t, noted(12), beneath, worse)},
		{"by one whose root is in db, and its digest in dbx", sign(t, noted(13), heir)},
		{"by one that is in db, its digest is in dbx", sign(t, noted(14), direct)},
		{"by a stranger and one that is in db", sign(t, sign(t, noted(15), stranger), direct)},
		{
			"by one that is in db and one that is revoked",
			sign(t, sign(t, noted(16), direct), revoked),
		},
		{
			"by one that is in db, as loamctl signs",
			signAgain(t, sign(t, noted(17), stranger), direct),
		},
		{"by a stranger, as loamctl signs", signAgain(t, sign(t, noted(18), direct), stranger)},
	}

	db := slices.Concat(certificate(root), certificate(direct), certificate(near),
		certificate(fallen), digestOf(t, noted(7)), digestOf(t, noted(8)))
	dbx := slices.Concat(revocation(revoked), revocation(worse), revocation(fallen),
		certificate(bad), digestOf(t, noted(14)))
	state, err := secureboot.Observe(SecureBoot(db, dbx))
	if err != nil {
		t.Fatal(err)
	}

	var all [][]byte
	for _, i := range images {
		all = append(all, i.image) // Each notes its place.
	}

	started := firmwareStarts(t, db, dbx, root, append(all, sign(t, program(1), direct)))
	for n, i := range images {
		err := state.Check(readImage(t, i.image))
		// OVMF looks for the digests of the signer and of what db has. Some
		// look at all in between: so do we.
		laxer := i.name == "by one whose intermediate's digest is in dbx"
		if real := bytes.Contains(started, []byte{byte(n)}); real != (err == nil || laxer) {
			t.Errorf("an image %s: OVMF starts it: %v; %v", i.name, real, err)
		}
	}

	t.Logf("started: %v", started)
}
