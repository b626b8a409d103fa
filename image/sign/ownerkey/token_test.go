package ownerkey

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/tools"
	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/keys"
)

// softHSM is the library in the tools tree.
const softHSM = "/usr/lib/softhsm/libsofthsm2.so"

// inToken puts two keys into a new token of SoftHSM, db and spare, and is what
// reaches them.
func inToken(t *testing.T, db, spare keys.Pair) Tokens {
	t.Helper()
	tree := tools.Tree{Dir: judge.Dir(t, "LOAM_TOOLS_TREE")}
	dir := t.TempDir()
	conf := filepath.Join(dir, "softhsm2.conf")
	err := errors.Join(os.Mkdir(filepath.Join(dir, "tokens"), 0o700),
		os.WriteFile(conf, []byte("directories.tokendir = "+dir+"/tokens\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}

	t.Setenv("SOFTHSM2_CONF", conf)
	for _, args := range [][]string{
		{"--init-token", "--free", "--label", "loam", "--so-pin", "1234", "--pin", "5678"},
		{"--import", db.KeyFile, "--token", "loam", "--label", "db", "--id", "01", "--pin", "5678"},
		{
			"--import",
			spare.KeyFile,
			"--token",
			"loam",
			"--label",
			"spare",
			"--id",
			"02",
			"--pin",
			"5678",
		},
	} {
		cmd := tree.Command(t.Context(),
			[]string{dir, filepath.Dir(db.KeyFile), filepath.Dir(spare.KeyFile)}, "env",
			append([]string{"SOFTHSM2_CONF=" + conf, "softhsm2-util"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("softhsm2-util %v: %v\n%s", args, err, out)
		}
	}

	return Tokens{
		Context: t.Context(),
		Tools:   func() (tools.Tree, error) { return tree, nil },
		PIN:     func(string) ([]byte, error) { return nil, errors.New("nobody is here") },
	}
}

func TestAKeyInATokenSignsAsOneInAFile(t *testing.T) {
	pair := keys.New(t, "one")
	tokens := inToken(t, pair, keys.New(t, "spare"))
	pin := filepath.Join(t.TempDir(), "pin")
	wrong := filepath.Join(t.TempDir(), "wrong")
	err := errors.Join(os.WriteFile(pin, []byte("5678\n"), 0o600),
		os.WriteFile(wrong, []byte("8765"), 0o600))
	if err != nil {
		t.Fatal(err)
	}

	uri := "pkcs11:token=loam;object=db?module-path=" + softHSM
	want, err := RootHash(pair.Signer, [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}

	asked := tokens
	asked.PIN = func(string) ([]byte, error) { return []byte("5678"), nil }
	for name, key := range map[string]struct {
		uri string
		Tokens
	}{"PIN in a file": {uri + "&pin-source=file:" + pin, tokens}, "PIN asked for": {uri, asked}} {
		s, err := Open(key.uri, pair.CertificateFile, key.Tokens)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := RootHash(s, [32]byte{1}); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: another signature: %v", name, err)
		}
	}

	for _, tc := range []struct{ name, uri, err string }{
		{"no library", "pkcs11:token=loam;object=db", "no library of the token\n" +
			"hint: pkcs11:token=loam;object=db?module-path="},
		{
			"a library that is not there",
			"pkcs11:token=loam?module-path=/none.so&pin-source=file:" + pin,
			"library: stat /none.so",
		},
		{"a PIN for all to see", uri + "&pin-value=5678", "attribute pin-value: not taken"},
		{"a PIN that a program says", uri + "&pin-source=|cat", "want file:FILE"},
		{"no PIN", uri, "nobody is here"},
		{"another PIN", uri + "&pin-source=file:" + wrong, "is the PIN right"},
		{
			"a key that is not the certificate's",
			strings.Replace(uri, "=db", "=spare", 1) +
				"&pin-source=file:" + pin,
			`sign by "CN=one": the signature belongs to another key`,
		},
		{
			"a key that is not there",
			strings.Replace(uri, "=db", "=other", 1) +
				"&pin-source=file:" + pin,
			"has the token that key?",
		},
	} {
		s, err := Open(tc.uri, pair.CertificateFile, tokens)
		if err == nil {
			_, err = RootHash(s, [32]byte{1})
		}
		if err == nil || !strings.Contains(hint.Text(err), tc.err) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
