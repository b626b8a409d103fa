package authenticode

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/keys"
)

// signedBy is an image with a signature.
func signedBy(t *testing.T, image []byte, by keys.Pair) []byte {
	t.Helper()
	signature, err := Sign(image, by.Signer)
	if err == nil {
		image, err = Attach(image, signature)
	}

	if err != nil {
		t.Fatal(err)
	}

	return image
}

func TestASignatureReplacesThoseThatAreThere(t *testing.T) {
	one := keys.New(t, "one")
	two := keys.New(t, "two")
	first := signedBy(t, stripped(t), one)
	for name, image := range map[string][]byte{
		"not signed": stripped(t),
		"by others":  signed(t),
		"by itself":  first,
		"by another": signedBy(t, first, two),
	} {
		again := signedBy(t, image, one)
		im, err := read(again)
		diff := cmp.Diff([][]string{{"one"}}, subjects(t, im))
		if err != nil || diff != "" || im.SHA256 != signedDigest {
			t.Errorf("an image %s: digest %s, %v\n%s", name, im.SHA256, err, diff)
		}

		if !bytes.Equal(again, first) {
			t.Errorf("an image %s: not the same bytes", name)
		}
	}

	plain, err := Strip(first)
	if err != nil || len(plain) != signedTable {
		t.Errorf("without signature: %d bytes, %v", len(plain), err)
	}
}

func TestASignatureIsOverItsImage(t *testing.T) {
	key := keys.New(t, "one")
	signature, err := Sign(stripped(t), key.Signer)
	if err != nil {
		t.Fatal(err)
	}

	other := stripped(t)
	other[len(other)-1]++
	if _, err := Attach(other, signature); err == nil ||
		!strings.Contains(err.Error(), "it is over an image of digest") {
		t.Errorf("of another image: %v", err)
	}

	if _, err := Sign([]byte("no image"), key.Signer); err == nil {
		t.Error("what is no image is signed")
	}
}

// TestOthersVerifyWhatIsSigned: sbverify and osslsigncode do, and find a change
// of one byte.
func TestOthersVerifyWhatIsSigned(t *testing.T) {
	key := keys.New(t, "one")
	image := signedBy(t, stripped(t), key)
	file := filepath.Join(t.TempDir(), "image.efi")
	for _, changed := range []bool{false, true} {
		if changed {
			image[signedTable-1]++
		}

		if err := os.WriteFile(file, image, 0o600); err != nil {
			t.Fatal(err)
		}

		for _, line := range [][]string{
			{"sbverify", "--cert", key.CertificateFile, file},
			{"osslsigncode", "verify", "-CAfile", key.CertificateFile, "-in", file},
		} {
			out, err := judge.Try(t, line[0], line[1:]...)
			if (err != nil) != changed {
				t.Errorf("%s, changed %v: %v\n%s", line[0], changed, err, out)
			}
		}
	}
}
