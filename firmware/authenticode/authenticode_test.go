package authenticode

import (
	"bytes"
	"crypto/x509"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// signed is a small EFI application. sbsign has signed it by "Loam test
// signer", a certificate of "Loam test intermediate", which is in it, too, and
// of "Loam test root", which is not. The signer's was valid for a day.
func signed(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/signed.efi")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	// Of signed: its digest as hash-to-efi-sig-list says it, where its table of
	// signatures begins, and the directory entry of that.
	signedDigest = "ce0f525f532798a2555c0f5a955b36840bedd1323d35bd7d05fe8eb4aca156de"
	signedTable  = 3584
	signedEntry  = 0x40 + 24 + securityOffset
)

// stripped is signed without its signature.
func stripped(t testing.TB) []byte {
	b := signed(t)[:signedTable]
	clear(b[signedEntry : signedEntry+8])
	return b
}

func read(b []byte) (Image, error) { return Read(bytes.NewReader(b), int64(len(b))) }

// subjects are the common names in each signature.
func subjects(t testing.TB, im Image) (all [][]string) {
	t.Helper()
	for _, signature := range im.Signatures {
		var names []string
		for _, der := range signature {
			c, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, c.Subject.CommonName)
		}
		all = append(all, names)
	}

	return all
}

func TestReadSaysWhoHasSigned(t *testing.T) {
	im, err := read(signed(t))
	if err != nil || im.SHA256 != signedDigest {
		t.Fatalf("digest %s: %v", im.SHA256, err)
	}
	diff := cmp.Diff([][]string{{"Loam test signer", "Loam test intermediate"}}, subjects(t, im))
	if diff != "" {
		t.Error(diff)
	}
}

func TestReadSaysThatNobodyHas(t *testing.T) {
	im, err := read(stripped(t))
	if diff := cmp.Diff(Image{SHA256: signedDigest}, im); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestReadRefuses(t *testing.T) {
	le := binary.LittleEndian

	for _, tc := range []struct {
		name   string
		change func(b []byte) []byte
		err    string
	}{
		{"a section that was changed", func(b []byte) []byte {
			b[signedTable-512]++
			return b
		}, "it is over an image of digest " + signedDigest},
		{"a header that was changed", func(b []byte) []byte {
			b[0x40+8]++
			return b
		}, "it is over an image of digest"},
		{"a signature that was changed", func(b []byte) []byte {
			b[bytes.LastIndex(b, []byte{4, 0x82, 1, 0})+9]++
			return b
		}, "it is not by CN=Loam test signer"},
		{"another time of signing", func(b []byte) []byte {
			b[bytes.LastIndex(b, []byte("Z0"))-1] ^= 1
			return b
		}, "it is not by CN=Loam test signer"},
		{"another message digest", func(b []byte) []byte {
			b[bytes.Index(b,
				[]byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 4, 0x31, 0x22, 4, 0x20})+13] ^= 1
			return b
		}, "the signer's message digest is"},
		{"bytes after the signatures", func(b []byte) []byte {
			return append(b, 0)
		}, "not the end of"},
		{"a table of signatures within the sections", func(b []byte) []byte {
			le.PutUint32(b[signedEntry:], 512)
			le.PutUint32(b[signedEntry+4:], uint32(len(b)-512))
			return b
		}, "sections of 3584 bytes in a file of 512"},
		{"a table of signatures beyond all bounds", func(b []byte) []byte {
			le.PutUint32(b[signedEntry+4:], 1<<30)
			return b
		}, "not the end of"},
		{"an entry longer than the table", func(b []byte) []byte {
			le.PutUint32(b[signedTable:], 1<<20)
			return b
		}, "an entry of 1048576 bytes"},
		{"an entry without end", func(b []byte) []byte {
			le.PutUint32(b[signedTable:], 0)
			return b
		}, "an entry of 0 bytes"},
		{"a signature that is none", func(b []byte) []byte {
			clear(b[signedTable+8:])
			return b
		}, "PKCS #7"},
		{"bytes between sections", func(b []byte) []byte {
			at := bytes.Index(b, []byte(".sbat\x00")) + 20
			le.PutUint32(b[at:], le.Uint32(b[at:])+512)
			return b
		}, "what precedes it ends at"},
		{"bytes that are no image", func([]byte) []byte { return []byte("hello") }, "EFI image"},
		{"an object that is no image", func(b []byte) []byte { return b[0x44:] }, "EFI image"},
		{"a file that was cut off", func(b []byte) []byte { return b[:600] }, "not the end of"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			im, err := read(tc.change(signed(t)))
			if err == nil || !strings.Contains(err.Error(), tc.err) ||
				strings.Contains(err.Error(), "%!") {
				t.Errorf("%v, %v, want %q", im, err, tc.err)
			}
		})
	}
}

// FuzzRead: any bytes are read or refused, and a signed image has a signer.
func FuzzRead(f *testing.F) {
	f.Add(signed(f))
	f.Add(stripped(f))

	f.Fuzz(func(t *testing.T, b []byte) {
		im, err := read(b)
		if err != nil {
			return
		}
		if len(im.SHA256) != 64 {
			t.Fatalf("digest %q", im.SHA256)
		}
		for _, names := range subjects(t, im) {
			if len(names) == 0 {
				t.Fatal("not signed")
			}
		}
	})
}
