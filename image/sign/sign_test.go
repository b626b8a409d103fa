package sign

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/image/tools"
	"github.com/loam-os/loam/partitions/verity"
	"github.com/loam-os/loam/test/judge"
)

// signer has a new key.
func signer(t *testing.T) (s Signer, dir string) {
	t.Helper()
	dir = t.TempDir()
	key, certificate := filepath.Join(dir, "key.pem"), filepath.Join(dir, "certificate.pem")
	s.Tools = tools.Tree{Dir: judge.Dir(t, "LOAM_TOOLS_TREE")}
	judged(t, s, dir, "", "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-subj", "/CN=test")
	opened, err := Open(key, certificate)
	if err != nil {
		t.Fatal(err)
	}
	opened.Tools = s.Tools
	return opened, dir
}

// judged runs a tool that sees dir, and returns what it prints.
func judged(t *testing.T, s Signer, dir, stdin, name string, args ...string) string {
	t.Helper()
	cmd := s.Tools.Command(t.Context(), []string{dir}, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

func TestFirmwareCanVerifyASignedProgram(t *testing.T) {
	s, dir := signer(t)
	file := filepath.Join(dir, "signed.efi")
	if err := s.Program(t.Context(), filepath.Join(s.Tools.Dir, loader.Installed("amd64")), file); err != nil {
		t.Fatal(err)
	}
	judged(t, s, dir, "", "sbverify", "--cert", s.certificate, file)
}

func TestASignedRootHashCanBeVerified(t *testing.T) {
	s, dir := signer(t)
	hash := [32]byte{1, 2, 3}
	content, err := s.RootHash(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	if len(content)%verity.BlockSize != 0 {
		t.Errorf("%d bytes", len(content))
	}
	sig, err := verity.ParseSignature(content)
	if err != nil {
		t.Fatal(err)
	}
	der, text := filepath.Join(dir, "signature"), filepath.Join(dir, "hash")
	if err := os.WriteFile(der, sig.Signature, 0o644); err != nil {
		t.Fatal(err)
	}
	for want, content := range map[bool]string{true: hex.EncodeToString(hash[:]), false: strings.Repeat("0", 64)} {
		if err := os.WriteFile(text, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		err := s.Tools.Command(t.Context(), []string{dir}, "openssl", "smime", "-verify", "-binary", "-inform", "der", "-in", der, "-content", text,
			"-certfile", s.certificate, "-nointern", "-noverify").Run()
		if (err == nil) != want {
			t.Errorf("openssl about %.8s…: %v", content, err)
		}
	}
}

func TestWhatIsNoKeyIsRefused(t *testing.T) {
	s, dir := signer(t)
	for _, tc := range []struct{ name, key, certificate, err string }{
		{"no such key", filepath.Join(dir, "none"), s.certificate, "no such file"},
		{"a certificate for a key", s.certificate, s.certificate, "want a PEM file with a PRIVATE KEY"},
		{"a key for a certificate", s.key, s.key, "want a PEM file with a CERTIFICATE"},
		{"no such certificate", s.key, filepath.Join(dir, "none"), "no such file"},
	} {
		if _, err := Open(tc.key, tc.certificate); err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if _, err := Open("pkcs11:token=loam", s.certificate); err != nil {
		t.Errorf("a key in a token: %v", err)
	}
	other, _ := signer(t)
	s.certificate = other.certificate
	if err := s.Program(t.Context(), filepath.Join(s.Tools.Dir, loader.Installed("amd64")), filepath.Join(dir, "x")); err == nil {
		t.Error("a certificate of another key signs")
	}
}
