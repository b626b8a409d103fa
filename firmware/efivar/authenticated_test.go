package efivar

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/keys"
)

func TestAuthenticateIsReadBack(t *testing.T) {
	pk := keys.New(t, "pk")
	db := keys.New(t, "db")
	value := Certificates(uuid.Nil, pk.Certificate, db.Certificate)
	at := time.Date(2026, 3, 1, 12, 0, 1, 0, time.UTC)
	auth, err := Authenticate("db", ImageSecurity, value, at, pk.Signer)
	if err != nil {
		t.Fatal(err)
	}

	again, err := Authenticate("db", ImageSecurity, value, at, pk.Signer)
	if err != nil || !bytes.Equal(auth, again) {
		t.Errorf("made again, it is another: %v", err)
	}

	got, err := ParseAuthenticated(auth)
	diff := cmp.Diff([]Signature{{X509, pk.Certificate.Raw}, {X509, db.Certificate.Raw}}, got)
	if err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}

	for n := range 60 {
		if _, err := ParseAuthenticated(auth[:n]); err == nil {
			t.Errorf("%d bytes of it are read", n)
		}
	}

	if _, err := Authenticate("db", "nobody", value, at, pk.Signer); err == nil {
		t.Error("a vendor that is no UUID")
	}
}

// TestEfitoolsMakesTheSame: sign-efi-sig-list has the same head, and its
// signature is over the same bytes, which RSA signs alike.
func TestEfitoolsMakesTheSame(t *testing.T) {
	pk := keys.New(t, "pk")
	dir := filepath.Dir(pk.KeyFile)
	owner := uuid.MustParse("77fa9abd-0359-4d32-bd60-28f4e78f784b")
	list := filepath.Join(dir, "list")
	auth := filepath.Join(dir, "auth")
	judge.Run(t, "cert-to-efi-sig-list", "-g", owner.String(), pk.CertificateFile, list)

	value := Certificates(owner, pk.Certificate)
	if want := read(t, list); !bytes.Equal(value, want) {
		t.Errorf("the list is %x, theirs %x", value, want)
	}

	judge.Run(t, "sign-efi-sig-list", "-t", "2026-03-01 12:00:01", "-k", pk.KeyFile, "-c",
		pk.CertificateFile, "PK", list, auth)
	got, err := Authenticate("PK", Global, value,
		time.Date(2026, 3, 1, 12, 0, 1, 0, time.UTC), pk.Signer)
	if want := read(t, auth); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\n%x\n%x", err, got, want)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
