package image

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/keys"
)

// step is a command line of loamctl, and what it has to print.
type step struct {
	args []string
	want string // a pattern
}

// TestCommandsOnABuild types the commands of the documentation that need a whole
// build, which the scripts of cmd/loamctl do not have.
func TestCommandsOnABuild(t *testing.T) {
	judge.Long(t, "the scripts of cmd/loamctl; TestSignedBuild, TestVerifyFindsEveryChange")
	plain := underTest(t)
	signed := plain.copied(t).dir
	owner := keys.New(t, "owner")
	_, keyring := openPGPKey(t)
	dir := t.TempDir()
	trusted := filepath.Join(dir, "machine.pem")
	writePublicKey(t, trusted)
	database := filepath.Join(dir, "known.json")
	text := `[{"id": "DEBIAN-CVE-2026-0001", "affected": [{"package": {"ecosystem": "Debian:13", "name": "none"}}]}]`
	if err := os.WriteFile(database, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	enroll := filepath.Join(dir, "enroll")
	sign := []string{"sign", signed, "--key", owner.KeyFile, "--certificate", owner.CertificateFile}
	with := func(args ...string) []string { return append(sign[:len(sign):len(sign)], args...) }

	for _, s := range []step{
		{[]string{"verify", plain.dir}, `all \d+ files and 8 partitions are as the manifest says`},
		{[]string{"verify", plain.dir, "-o", "json"}, `"version": "`},
		{[]string{"verify", plain.dir, "--vulnerabilities", database}, `(?m)^known vulnerabilities`},
		{[]string{"inspect", plain.dir, "--packages"}, `(?m)^  systemd  `},
		{
			[]string{
				"keys", enroll, "--pk-key", owner.KeyFile, "--pk-certificate", owner.CertificateFile,
				"--db", owner.CertificateFile,
			},
			`PK CN=owner`,
		},
		{with("--machine-trust", trusted), `signed by CN=owner\n$`},
		{with("--enroll", enroll), `signed by CN=owner\n$`},
		{with("--pcr-key", owner.KeyFile), `signed by CN=owner`},
		{[]string{"sign", signed, "--sums-key", privateKey(keyring)}, `signed by `},
		{[]string{"verify", signed, "--sums-key", keyring}, `SHA256SUMS`},
		{[]string{"inspect", plain.dir, signed}, `(?m)^SYSTEM$`},
	} {
		out, err := exec.CommandContext(t.Context(), "../../build/loamctl", s.args...).CombinedOutput()
		if err != nil || !regexp.MustCompile(s.want).Match(out) {
			t.Errorf("loamctl %q: %v; no %s in\n%s", s.args, err, s.want, out)
		}
	}
}

// writePublicKey writes an ed25519 key that may sign a machine.yaml.
func writePublicKey(t *testing.T, file string) {
	t.Helper()
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
