// Package secureboot knows which images firmware starts (UEFI 32.4 and 32.5, as
// EDK2 does it; where firmware differs, what all of it starts).
package secureboot

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/firmware/pkcs7"
)

// State is the state of Secure Boot on a machine.
type State struct {
	// On: firmware starts only allowed programs.
	On bool
	// Allowed is db, Forbidden is dbx, each with what shim adds for the images
	// that its loader starts.
	Allowed, Forbidden []efivar.Signature
}

// Mode is the mode of the firmware's Secure Boot (UEFI 32.3).
type Mode string

// Setup means that Secure Boot is off, and that the firmware takes the first
// keys that it is given.
const (
	None  Mode = "" // The machine was not started by UEFI, or its firmware knows no Secure Boot.
	Off   Mode = "off"
	Setup Mode = "off, in setup mode"
	On    Mode = "on"
)

// ModeOf reads the mode of this machine. sys is sysfs.
func ModeOf(sys fs.FS) Mode {
	is := func(name string) bool {
		value, err := efivar.Read(sys, name, efivar.Global)
		return err == nil && bytes.Equal(value, []byte{1})
	}

	_, err := efivar.Read(sys, "SecureBoot", efivar.Global)
	switch {
	case err != nil:
		return None
	case is("SecureBoot"):
		return On
	case is("SetupMode"):
		return Setup
	}

	return Off
}

// Observe reads the variables of this machine. sys is sysfs. A machine that was
// not started by UEFI has Secure Boot off.
func Observe(sys fs.FS) (State, error) {
	on, err := efivar.Read(sys, "SecureBoot", efivar.Global)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !bytes.Equal(on, []byte{1})) {
		return State{}, nil
	}

	s := State{On: true}
	for _, v := range []struct {
		name, vendor string
		to           *[]efivar.Signature
	}{
		{"db", efivar.ImageSecurity, &s.Allowed}, {"MokListRT", efivar.Shim, &s.Allowed},
		{"dbx", efivar.ImageSecurity, &s.Forbidden}, {"MokListXRT", efivar.Shim, &s.Forbidden},
	} {
		if err == nil {
			err = read(sys, v.name, v.vendor, v.to)
		}
	}

	return s, err
}

// read adds the signatures in a variable, if the variable exists.
func read(sys fs.FS, name, vendor string, to *[]efivar.Signature) error {
	value, err := efivar.Read(sys, name, vendor)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err != nil {
		return err
	}

	all, err := efivar.ParseSignatures(value)
	if err != nil {
		return fmt.Errorf("EFI variable %s: %w", name, err)
	}

	*to = append(*to, all...)
	return nil
}

// Reasons of the firmware not to start an image.
var (
	ErrUnsigned  = errors.New("it is not signed")
	ErrUnknown   = errors.New("no certificate in firmware db leads to its signer")
	ErrForbidden = errors.New("firmware dbx forbids it")
)

// Check returns nil for an image that firmware starts, or else one of the errors
// above. A ban counts more than any permission.
func (s State) Check(im authenticode.Image) error {
	if !s.On {
		return nil
	}

	allowed := holdsDigest(s.Allowed, im.SHA256)
	if holdsDigest(s.Forbidden, im.SHA256) {
		return fmt.Errorf("%w: its digest is in it", ErrForbidden)
	}

	why := ErrUnsigned
	for _, signature := range im.Signatures {
		c, err := parseChain(signature)
		switch {
		case err != nil:
			return err
		case c.in(s.Forbidden):
			return fmt.Errorf("%w: it is signed by %s", ErrForbidden, c[0].Subject)
		}
		allowed = allowed || s.allows(c)
		why = fmt.Errorf("%w, %s", ErrUnknown, c[0].Subject)
	}
	if allowed {
		return nil
	}

	return why
}

// holdsDigest reports whether a list has the digest of an image, 64 hex digits.
func holdsDigest(list []efivar.Signature, digest string) bool {
	return slices.ContainsFunc(list, func(s efivar.Signature) bool {
		return s.Type == efivar.SHA256 && hex.EncodeToString(s.Data) == digest
	})
}

// allows reports whether a certificate of db leads to a signer. It may be the
// signer's own, and must not be revoked itself.
func (s State) allows(signer chain) bool {
	return slices.ContainsFunc(s.Allowed, func(d efivar.Signature) bool {
		if d.Type != efivar.X509 || !signer.has(d) {
			return false
		}
		anchor, err := x509.ParseCertificate(d.Data)
		return err != nil || !chain{anchor}.in(s.Forbidden)
	})
}

// chain is a signer's certificate and its issuers.
type chain []*x509.Certificate

func parseChain(signature [][]byte) (chain, error) {
	c, err := x509.ParseCertificates(bytes.Join(signature, nil))
	if err == nil && len(c) == 0 {
		err = errors.New("no certificate")
	}
	if err != nil {
		return nil, fmt.Errorf("certificates of a signature: %w", err)
	}
	return c, nil
}

func (c chain) in(list []efivar.Signature) bool { return slices.ContainsFunc(list, c.has) }

// has reports whether an entry of db or dbx matches one of the certificates, or
// the issuer of one. The time of revocation does not matter: our images carry
// no trusted timestamp.
func (c chain) has(entry efivar.Signature) bool {
	anchor, err := x509.ParseCertificate(entry.Data)
	sum := map[efivar.Type]crypto.Hash{
		efivar.X509SHA256: crypto.SHA256,
		efivar.X509SHA384: crypto.SHA384,
		efivar.X509SHA512: crypto.SHA512,
	}[entry.Type]

	return slices.ContainsFunc(c, func(of *x509.Certificate) bool {
		switch {
		case entry.Type == efivar.X509: // Firmware may hold a certificate that Go cannot parse.
			return bytes.Equal(entry.Data, of.Raw) || (err == nil && pkcs7.Issued(anchor, of))
		case sum.Available():
			h := sum.New()
			h.Write(of.RawTBSCertificate)
			return bytes.HasPrefix(entry.Data, h.Sum(nil))
		}
		return false
	})
}
