package secureboot

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"io/fs"
	"math/big"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/test/firmware"
)

// identity is a certificate with its key.
type identity struct {
	*x509.Certificate
	key *ecdsa.PrivateKey
}

// issue makes a certificate, self-signed if by is nil. All were valid in 1970.
func issue(t testing.TB, name string, authority bool, by *identity) *identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	id := &identity{&x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotAfter:              time.Unix(1, 0),
		IsCA:                  authority,
		BasicConstraintsValid: true,
	}, key}

	if by == nil {
		by = id
	}

	der, err := x509.CreateCertificate(rand.Reader, id.Certificate, by.Certificate,
		key.Public(), by.key)
	if err != nil {
		t.Fatal(err)
	}

	id.Certificate, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}

	return id
}

func cert(c *identity) efivar.Signature { return efivar.Signature{Type: efivar.X509, Data: c.Raw} }

// revoked is an entry of dbx since some time.
func revoked(c *identity) efivar.Signature {
	sum := sha256.Sum256(c.RawTBSCertificate)
	return efivar.Signature{Type: efivar.X509SHA256, Data: append(sum[:], make([]byte, 16)...)}
}

func revoked512(c *identity) efivar.Signature {
	sum := sha512.Sum512(c.RawTBSCertificate)
	return efivar.Signature{Type: efivar.X509SHA512, Data: append(sum[:], make([]byte, 16)...)}
}

func TestCheck(t *testing.T) {
	root := issue(t, "root", true, nil)
	mid := issue(t, "intermediate", true, root)
	leaf := issue(t, "leaf", false, mid)
	child := issue(t, "child of a leaf", false, leaf)
	alone := issue(t, "alone", false, nil)
	other := issue(t, "other", true, nil)
	namesake := issue(t, "intermediate", true, nil)
	sum := sha256.Sum256([]byte("image"))
	digest := efivar.Signature{Type: efivar.SHA256, Data: sum[:]}
	odd := efivar.Signature{Type: efivar.X509, Data: []byte("not DER")}
	by := func(chains ...[]*identity) authenticode.Image {
		im := authenticode.Image{SHA256: hex.EncodeToString(sum[:])}
		for _, c := range chains {
			var der [][]byte
			for _, id := range c {
				der = append(der, id.Raw)
			}
			im.Signatures = append(im.Signatures, der)
		}
		return im
	}

	list := func(all ...efivar.Signature) []efivar.Signature { return all }
	whole := []*identity{leaf, mid}
	short := []*identity{leaf}
	self := []*identity{alone}
	for _, tc := range []struct {
		name    string
		image   authenticode.Image
		db, dbx []efivar.Signature
		want    error
	}{
		{"the root is in db", by(whole), list(cert(root)), nil, nil},
		{"the intermediate is in db", by(whole), list(cert(mid)), nil, nil},
		{"the intermediate is in db, and nowhere else", by(short), list(cert(mid)), nil, nil},
		{"the signer is in db", by(short), list(cert(leaf)), nil, nil},
		{"one that signs itself is in db", by(self), list(cert(alone)), nil, nil},
		{"its digest is in db", by(), list(digest), nil, nil},
		{"its digest is in db, its signer is not", by(self), list(digest), nil, nil},
		{"an entry beside it that cannot be read", by(whole), list(odd, cert(root)), nil, nil},
		{"the second of two signers is in db", by(self, whole), list(cert(root)), nil, nil},
		{"it is not signed", by(), list(cert(root)), nil, ErrUnsigned},
		{"it is not signed, and db is empty", by(), nil, nil, ErrUnsigned},
		{"another root is in db", by(whole), list(cert(other)), nil, ErrUnknown},
		{"a root of the same name is in db", by(short), list(cert(namesake)), nil, ErrUnknown},
		{
			"the root is in db, but what leads there is not",
			by(short),
			list(cert(root)),
			nil,
			ErrUnknown,
		},
		{
			"a leaf has issued its certificate",
			by([]*identity{child}),
			list(cert(leaf)),
			nil,
			ErrUnknown,
		},
		{
			"db has a digest of its certificate, which means nothing there",
			by(whole),
			list(revoked(leaf)),
			nil,
			ErrUnknown,
		},
		{"its digest is in dbx", by(whole), list(cert(root)), list(digest), ErrForbidden},
		{"its digest is in both", by(), list(digest), list(digest), ErrForbidden},
		{"its signer is in dbx", by(whole), list(cert(root)), list(cert(leaf)), ErrForbidden},
		{"its intermediate is in dbx", by(short), list(cert(leaf)), list(cert(mid)), ErrForbidden},
		{"its root is in both", by(whole), list(cert(root)), list(cert(root)), ErrForbidden},
		{
			"the digest of its signer's certificate is in dbx",
			by(whole),
			list(cert(root)),
			list(revoked(leaf)),
			ErrForbidden,
		},
		{
			"a longer digest of its intermediate is in dbx",
			by(whole),
			list(cert(root)),
			list(revoked512(mid)),
			ErrForbidden,
		},
		{
			"its signer is in dbx, its digest is in db",
			by(whole),
			list(digest),
			list(cert(leaf)),
			ErrForbidden,
		},
		{
			"one of two signers is in dbx",
			by(self, whole),
			list(cert(root)),
			list(cert(alone)),
			ErrForbidden,
		},
		{
			"the digest of its root in db is in dbx",
			by(whole),
			list(cert(root)),
			list(revoked(root)),
			ErrUnknown,
		},
		{
			"one of two ways up is in dbx",
			by(whole),
			list(cert(root), cert(mid)),
			list(revoked(root)),
			nil,
		},
		{
			"others are in dbx",
			by(whole),
			list(cert(root)),
			list(cert(other), revoked(alone), odd),
			nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := (State{
				On:        true,
				Allowed:   tc.db,
				Forbidden: tc.dbx,
			}).Check(tc.image); !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
			if err := (State{Forbidden: tc.dbx}).Check(tc.image); err != nil {
				t.Errorf("with Secure Boot off: %v", err)
			}
		})
	}
}

func TestCheckRefusesCertificatesThatAreNone(t *testing.T) {
	for _, signature := range [][][]byte{{}, {[]byte("not DER")}} {
		err := State{On: true}.Check(authenticode.Image{Signatures: [][][]byte{signature}})
		if err == nil || errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", signature, err)
		}
	}
}

// hash is a list of one digest in a variable: c is each byte of it.
func hash(c byte) *fstest.MapFile {
	return &fstest.MapFile{Data: append([]byte{7, 0, 0, 0},
		firmware.SignatureList(string(efivar.SHA256), strings.Repeat(string(c), 32))...)}
}

func entry(c byte) efivar.Signature {
	return efivar.Signature{Type: efivar.SHA256, Data: []byte(strings.Repeat(string(c), 32))}
}

func TestObserve(t *testing.T) {
	const on, db, dbx = efivar.Dir + "/SecureBoot-" + efivar.Global, efivar.Dir + "/db-" +
		efivar.ImageSecurity, efivar.Dir + "/dbx-" + efivar.ImageSecurity

	const mok, mokx = efivar.Dir + "/MokListRT-" + efivar.Shim, efivar.Dir +
		"/MokListXRT-" + efivar.Shim

	yes := &fstest.MapFile{Data: []byte{6, 0, 0, 0, 1}}
	no := &fstest.MapFile{Data: []byte{6, 0, 0, 0, 0}}
	broken := &fstest.MapFile{Data: []byte("????list")}
	for _, tc := range []struct {
		name string
		sys  fstest.MapFS
		want State
		err  string
	}{
		{"a machine without UEFI", fstest.MapFS{}, State{}, ""},
		{"Secure Boot that is off", fstest.MapFS{on: no, db: hash('a'), dbx: broken}, State{}, ""},
		{
			"Secure Boot that is on",
			fstest.MapFS{on: yes, db: hash('a'), dbx: hash('b')},
			State{true, []efivar.Signature{entry('a')}, []efivar.Signature{entry('b')}},
			"",
		},
		{
			"a firmware without dbx",
			fstest.MapFS{on: yes, db: hash('a')},
			State{true, []efivar.Signature{entry('a')}, nil},
			"",
		},
		{
			"a loader that shim has started",
			fstest.MapFS{
				on:   yes,
				db:   hash('a'),
				mok:  hash('c'),
				dbx:  hash('b'),
				mokx: hash('d'),
			},
			State{
				true,
				[]efivar.Signature{entry('a'), entry('c')},
				[]efivar.Signature{entry('b'), entry('d')},
			},
			"",
		},
		{
			"a dbx that is none",
			fstest.MapFS{on: yes, db: hash('a'), dbx: broken},
			State{},
			"EFI variable dbx: signature list at byte 0",
		},
		{
			"a variable without attributes",
			fstest.MapFS{on: &fstest.MapFile{}},
			State{},
			"EFI variable SecureBoot",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Observe(tc.sys)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) ||
					errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%v, want %q", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func TestModeOf(t *testing.T) {
	const vendor = "-8be4df61-93ca-11d2-aa0d-00e098032b8c"
	value := func(b byte) *fstest.MapFile { return &fstest.MapFile{Data: []byte{6, 0, 0, 0, b}} }

	for _, tc := range []struct {
		name string
		sys  fstest.MapFS
		want Mode
	}{
		{"no UEFI", nil, None},
		{
			"keys, switched on",
			fstest.MapFS{
				efivar.Dir + "/SecureBoot" + vendor: value(1),
				efivar.Dir + "/SetupMode" + vendor:  value(0),
			},
			On,
		},
		{
			"keys, switched off",
			fstest.MapFS{
				efivar.Dir + "/SecureBoot" + vendor: value(0),
				efivar.Dir + "/SetupMode" + vendor:  value(0),
			},
			Off,
		},
		{
			"no keys",
			fstest.MapFS{
				efivar.Dir + "/SecureBoot" + vendor: value(0),
				efivar.Dir + "/SetupMode" + vendor:  value(1),
			},
			Setup,
		},
	} {
		if got := ModeOf(tc.sys); got != tc.want {
			t.Errorf("%s: %q", tc.name, got)
		}
	}
}
