package sign

import (
	"bytes"
	"crypto"
	"fmt"
	"strings"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/firmware/pkcs7"
	"github.com/loam-os/loam/firmware/secureboot"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/esp"
)

// Keys sign a build.
type Keys struct {
	// Programs signs loader, UKIs, and the root hash; without a certificate,
	// they stay as they are.
	Programs pkcs7.Signer

	// Enroll has PK.auth, KEK.auth and db.auth, which the loader enrolls in
	// firmware, as When says. It is empty for firmware that has the keys.
	Enroll map[string][]byte
	When   When

	// MachineTrust has the keys for machine.yaml (image.Spec) that the command
	// lines get; "" leaves the keys that they have.
	MachineTrust string

	// PCR signs the policy of PCR 11 in each UKI (firmware/pcrsig); empty removes
	// it, as what it was made for changes.
	PCR []crypto.Signer

	// Sums signs SHA256SUMS; nil leaves them unsigned.
	Sums SumsSigner
}

// SumsSigner makes a detached OpenPGP signature.
type SumsSigner interface {
	Sign(text []byte) ([]byte, error)
}

// None reports whether nothing is signed.
func (k Keys) None() bool { return k.Programs.Certificate == nil && k.Sums == nil }

// files returns the files with keys on the ESP.
func (k Keys) files() (all []esp.File) {
	for name, content := range k.Enroll {
		all = append(all, esp.File{Path: keysDir + "/auto/" + name, Data: content})
	}
	return all
}

// check makes sure that firmware which enrolls the keys starts a program.
func (k Keys) check(program []byte) error {
	if len(k.Enroll) == 0 {
		return nil
	}

	allowed, err := efivar.ParseAuthenticated(k.Enroll["db.auth"])
	if err != nil {
		return fmt.Errorf("db.auth: %w", err)
	}

	im, err := authenticode.Read(bytes.NewReader(program), int64(len(program)))
	if err != nil {
		return err
	}

	if err := (secureboot.State{On: true, Allowed: allowed}).Check(im); err != nil {
		return hint.With(
			fault.With(fmt.Errorf("a machine with this db.auth enrolled would not start the signed "+
				"programs: %w", err), fault.KeyUnfit),
			"make another with `loamctl keys --db` and the signing certificate",
		)
	}

	return nil
}

// When the loader enrolls the keys on the ESP in firmware that has none
// (loader.conf(5), secure-boot-enroll).
type When string

// Never is right if there are no keys. Manual leaves it to an operator, who
// picks the keys from the menu. IfSafe enrolls by itself in virtual machines,
// and is Manual elsewhere. Force always enrolls.
const (
	Never  When = ""
	Manual When = "manual"
	IfSafe When = "if-safe"
	Force  When = "force"
)

// keysDir has a directory for each set of keys. The loader enrolls the set in
// the directory auto by itself.
const keysDir = "loader/keys"

// enrollWhen returns the loader.conf with when in it.
func enrollWhen(conf []byte, when When) []byte {
	const option = "secure-boot-enroll "
	var text []byte
	for line := range bytes.Lines(conf) {
		if !strings.HasPrefix(string(line), option) {
			text = append(text, line...)
		}
	}

	if when == Never {
		return text
	}

	return append(text, option+string(when)+"\n"...)
}
