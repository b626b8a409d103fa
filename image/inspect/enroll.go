package inspect

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/partitions/fat"
)

// Enrollment is a set of keys on the ESP, which the loader enrolls in firmware
// that has none.
type Enrollment struct {
	// Name is the name of the set: the loader enrolls the set auto by itself.
	Name string `json:"name"`
	// PK are the subjects of the certificates of the platform key.
	PK []string `json:"pk,omitempty"`
	// KEK are those of the keys that may change db and dbx.
	KEK []string `json:"kek,omitempty"`
	// DB are those of the keys that programs are signed with.
	DB []string `json:"db,omitempty"`
}

// keysDir has a directory for each set (systemd-boot(7)).
const keysDir = "loader/keys"

func readEnrollments(esp *fat.FS) (all []Enrollment, err error) {
	sets, err := esp.ReadDir(keysDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	for _, set := range sets {
		e := Enrollment{Name: set.Name}
		for name, to := range map[string]*[]string{"PK": &e.PK, "KEK": &e.KEK, "db": &e.DB} {
			path := keysDir + "/" + set.Name + "/" + name + ".auth"
			r, err := esp.Open(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}

			if err == nil {
				*to, err = subjects(r)
			}

			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}

		all = append(all, e)
	}

	return all, nil
}

// subjects names the entries in a variable of signatures.
func subjects(r io.Reader) (names []string, err error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}

	signatures, err := efivar.ParseAuthenticated(content)
	if err != nil {
		return nil, err
	}

	for _, s := range signatures {
		if s.Type != efivar.X509 {
			names = append(names, fmt.Sprintf("%.8x", s.Data))
			continue
		}
		c, err := x509.ParseCertificate(s.Data)
		if err != nil {
			return nil, err
		}
		names = append(names, cmp.Or(c.Subject.CommonName, c.Subject.String()))
	}

	return names, nil
}
