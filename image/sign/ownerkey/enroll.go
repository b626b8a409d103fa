package ownerkey

import (
	"crypto/x509"
	"time"

	"github.com/google/uuid"

	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/firmware/pkcs7"
)

// Authorities are the keys that decide what firmware starts (UEFI 32.3): PK
// signs changes of KEK, KEK signs changes of db, and db lists the certificates
// of the programs.
type Authorities struct {
	PK, KEK pkcs7.Signer
	// MoreKEK may change db and dbx as well; DB signs programs.
	MoreKEK, DB []*x509.Certificate
}

// Variables returns the authenticated variables that enroll the keys, by the
// file names that systemd-boot looks for. Their time is the start of the newest
// certificate: the same certificates make the same bytes, and newer ones make
// variables that firmware accepts in place of the older.
func (a Authorities) Variables() (map[string][]byte, error) {
	kek := append([]*x509.Certificate{a.KEK.Certificate}, a.MoreKEK...)
	var at time.Time
	for _, c := range append(append([]*x509.Certificate{a.PK.Certificate}, kek...), a.DB...) {
		if c.NotBefore.After(at) {
			at = c.NotBefore
		}
	}

	owner := uuid.NewSHA1(uuid.NameSpaceX500, a.PK.Certificate.Raw)
	files := map[string][]byte{}
	for _, v := range []struct {
		name, vendor string
		value        []*x509.Certificate
		by           pkcs7.Signer
	}{
		{"PK", efivar.Global, []*x509.Certificate{a.PK.Certificate}, a.PK},
		{"KEK", efivar.Global, kek, a.PK},
		{"db", efivar.ImageSecurity, a.DB, a.KEK},
	} {
		b, err := efivar.Authenticate(v.name, v.vendor,
			efivar.Certificates(owner, v.value...), at, v.by)
		if err != nil {
			return nil, err
		}
		files[v.name+".auth"] = b
	}

	return files, nil
}

// Names returns the file names that [Authorities.Variables] makes.
func Names() []string { return []string{"PK.auth", "KEK.auth", "db.auth"} }
