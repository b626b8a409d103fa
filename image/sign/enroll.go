package sign

import (
	"crypto/x509"
	"time"

	"github.com/google/uuid"

	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/firmware/pkcs7"
)

// Authorities are who says what firmware starts (UEFI 32.3): PK who says so of
// KEK, KEK of DB, and DB of programs.
type Authorities struct {
	PK, KEK pkcs7.Signer
	// MoreKEK are others that may change db and dbx; DB are those whose
	// programs are started.
	MoreKEK, DB []*x509.Certificate
}

// Variables are the authenticated variables that enroll them, by the names of
// the files that systemd-boot looks for. They have the time of the newest
// certificate in them: the same certificates make the same bytes, and newer
// ones what replaces the older.
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

// Names of the files of Variables.
func Names() []string { return []string{"PK.auth", "KEK.auth", "db.auth"} }
