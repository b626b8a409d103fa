package efivar

import (
	"bytes"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/test/firmware"
	"github.com/loam-os/loam/test/judge"
)

func TestRead(t *testing.T) {
	sys := fstest.MapFS{
		Dir + "/SecureBoot-" + Global: {Data: []byte{6, 0, 0, 0, 1}},
		Dir + "/LoaderDevicePartUUID-" +
			Loader: {Data: []byte("\x06\x00\x00\x00A\x00-\x00\x00\x00")},
		Dir + "/Short-" + Global: {Data: []byte{6}},
	}
	if value, err := Read(sys, "SecureBoot", Global); err != nil || !bytes.Equal(value, []byte{1}) {
		t.Errorf("%v, %v", value, err)
	}
	if value, err := Read(sys, "LoaderDevicePartUUID", Loader); err != nil || Text(value) != "A-" {
		t.Errorf("%q, %v", Text(value), err)
	}
	if _, err := Read(sys, "SecureBoot", Loader); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a variable of another vendor: %v", err)
	}

	if _, err := Read(sys, "Short", Global); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a variable without attributes: %v", err)
	}
}

// list is one EFI_SIGNATURE_LIST.
func list(t Type, signatures ...string) []byte {
	return firmware.SignatureList(string(t), signatures...)
}

func TestParseSignatures(t *testing.T) {
	one := strings.Repeat("1", 32)
	two := strings.Repeat("2", 32)
	lists := bytes.Join([][]byte{list(SHA256, one, two), list(X509, "cert!"), list(X509)}, nil)
	got, err := ParseSignatures(lists)
	want := []Signature{{SHA256, []byte(one)}, {SHA256, []byte(two)}, {X509, []byte("cert!")}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}

	if got, err := ParseSignatures(nil); err != nil || len(got) != 0 {
		t.Errorf("an empty variable: %v, %v", got, err)
	}
}

func TestParseSignaturesRefuses(t *testing.T) {
	set := func(b []byte, at int, n uint32) []byte {
		binary.LittleEndian.PutUint32(b[at:], n)
		return b
	}

	for _, tc := range []struct {
		name string
		b    []byte
		err  string
	}{
		{
			"a header that was cut off",
			list(X509, "cert")[:20],
			"at byte 0: 20 bytes, its header takes 28",
		},
		{"a list that was cut off", list(X509, "cert")[:40], "at byte 0: 40 bytes of 48"},
		{"bytes after the last list", append(list(X509, "cert"), 0), "at byte 48: 1 bytes"},
		{
			"a list smaller than its header",
			set(list(X509, "cert"), 16, 27),
			"27 bytes, its headers take 28",
		},
		{"a second header beyond the list", set(list(X509, "cert"), 20, 21), "its headers take 49"},
		{"a size that overflows", set(list(X509, "cert"), 20, 1<<32-1), "its headers take"},
		{"signatures of no size", set(list(X509, "cert"), 24, 0), "signatures that are 0 each"},
		{
			"signatures without content",
			set(list(X509, "cert"), 24, 16),
			"signatures that are 16 each",
		},
		{
			"a signature that was cut off",
			set(list(X509, "cert"), 24, 19),
			"20 bytes of signatures that are 19 each",
		},
		{
			"a digest of another length",
			list(SHA256, strings.Repeat("1", 20)),
			"signatures of 36 bytes, type " + string(SHA256) + " has 48",
		},
		{
			"a revoked certificate without time",
			list(X509SHA256, strings.Repeat("1", 32)),
			"has 64",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseSignatures(tc.b)
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%v, %v, want %q", got, err, tc.err)
			}
		})
	}
}

// FuzzParseSignatures: what is read takes no more than there is.
func FuzzParseSignatures(f *testing.F) {
	f.Add(list(X509, "cert"))
	f.Add(append(list(SHA256, strings.Repeat("1", 32)),
		list(X509SHA256, strings.Repeat("2", 48))...))

	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := ParseSignatures(b)
		if err != nil && all != nil {
			t.Fatalf("%v and %v", all, err)
		}

		total := 0
		for _, s := range all {
			total += len(s.Data) + owner
			if len(s.Data) == 0 {
				t.Fatal("a signature of nothing")
			}
		}
		if total > len(b) {
			t.Fatalf("signatures of %d bytes in %d", total, len(b))
		}
	})
}

func TestListsOfEfitools(t *testing.T) {
	dir := t.TempDir()
	cert := filepath.Join(dir, "cert.pem")
	out := filepath.Join(dir, "list")

	der, err := os.ReadFile(filepath.Join(judge.Dir(t, "LOAM_TOOLS_TREE"),
		"usr/share/ovmf/PkKek-1-snakeoil.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cert, der, 0o600); err != nil {
		t.Fatal(err)
	}

	block, _ := pem.Decode(der)
	judge.Run(t, "cert-to-efi-sig-list", cert, out)

	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}

	got, err := ParseSignatures(b)
	if diff := cmp.Diff([]Signature{{X509, block.Bytes}}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// variable is the newest value of a variable in a store of OVMF: authenticated
// variables (EDK2's AuthenticatedVariableFormat.h), each with a header of 60
// bytes, name and value, aligned to 4.
func variable(store []byte, name string) (value []byte) {
	const header, added = 60, 0x3f
	var wide []byte
	for _, u := range append(utf16.Encode([]rune(name)), 0) {
		wide = binary.LittleEndian.AppendUint16(wide, u)
	}

	for at := 0; at+header < len(store); at += 4 {
		h := store[at:]
		if binary.LittleEndian.Uint16(h) != 0x55aa || h[2] != added ||
			!bytes.HasPrefix(h[header:], wide) {
			continue
		}
		value = h[header+len(wide):][:binary.LittleEndian.Uint32(h[40:])]
	}

	return value
}

func TestTheListsThatMachinesComeWith(t *testing.T) {
	store, err := os.ReadFile(filepath.Join(judge.Dir(t, "LOAM_TOOLS_TREE"),
		"usr/share/OVMF/OVMF_VARS_4M.ms.fd"))
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]Type{"db": X509, "dbx": SHA256} {
		all, err := ParseSignatures(variable(store, name))
		if err != nil || len(all) == 0 || all[0].Type != kind {
			t.Errorf("%s: %d signatures, %v", name, len(all), err)
		}
		t.Logf("%s: %d signatures", name, len(all))
	}
}
