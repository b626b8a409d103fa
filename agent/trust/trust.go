// Package trust signs machine.yaml, and verifies who has signed it.
//
// A signed machine.yaml is a DSSE envelope (image/dsse) around the text and a
// serial number. A node with trusted keys takes another document only if one of
// the keys has signed it and its serial number is higher than the accepted one;
// agent/source decides that. Nothing here depends on a clock.
//
//	machine.yaml, serial --Sign--> envelope --Open--> Document.SignedBy(Keys)
//
// The keys of a node are in the command line of its kernel, which Secure Boot
// verifies, and in the machine.yaml that it has accepted.
package trust

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/loam-os/loam/agent/cmdline"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/dsse"
)

// Parameter is the kernel parameter with the keys that the maker of the image
// trusts, as ParseKeys reads them.
const Parameter = "loam.trust"

// MaxKeys is how many keys a node may trust in one place. A kernel command line
// has 2048 bytes at most, and a key 60.
const MaxKeys = 8

// Keys are the public keys whose signature of a machine.yaml counts.
type Keys []ed25519.PublicKey

// ParseKey reads a public key: the base64 line of the PEM file that `openssl
// pkey -pubout` writes, which is a SubjectPublicKeyInfo (RFC 8410). The error
// does not have the text, which may be a private key.
func ParseKey(text string) (ed25519.PublicKey, error) {
	der, err := base64.StdEncoding.Strict().DecodeString(text)
	if err == nil {
		public, parseErr := x509.ParsePKIXPublicKey(der)
		if key, is := public.(ed25519.PublicKey); is && parseErr == nil {
			return key, nil
		}
	}
	return nil, hint.With(
		fault.With(errors.New("is not a public ed25519 key"), fault.KeyUnfit),
		"write the line between BEGIN and END that `openssl pkey -in machine.key -pubout` prints",
	)
}

// FormatKey is the inverse of ParseKey.
func FormatKey(key ed25519.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic(err) // It is an ed25519 key.
	}
	return base64.StdEncoding.EncodeToString(der)
}

// ParseKeys reads keys with commas between them; "" is no key.
func ParseKeys(text string) (Keys, error) {
	if text == "" {
		return nil, nil
	}

	var keys Keys
	for one := range strings.SplitSeq(text, ",") {
		key, err := ParseKey(one)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", len(keys)+1, err)
		}
		keys = append(keys, key)
	}

	if len(keys) > MaxKeys {
		return nil, fault.With(fmt.Errorf("%d keys: want at most %d", len(keys), MaxKeys),
			fault.KeyUnfit)
	}
	return keys, nil
}

// String is the inverse of ParseKeys.
func (k Keys) String() string {
	var all []string
	for _, key := range k {
		all = append(all, FormatKey(key))
	}
	return strings.Join(all, ",")
}

// OfCmdline returns the keys of a kernel command line. Only the first parameter
// counts: the stub of a UKI puts what others add (SMBIOS, add-ons) after what
// is in the UKI.
func OfCmdline(text string) (Keys, error) {
	values := cmdline.Parse(text).List(Parameter)
	if len(values) == 0 {
		return nil, nil
	}

	keys, err := ParseKeys(values[0])
	if err == nil && len(keys) == 0 {
		err = errors.New("it names no key")
	}
	if err != nil {
		return nil, fmt.Errorf("kernel command line: %s=: %w", Parameter, err)
	}
	return keys, nil
}

// Document is a machine.yaml, signed or not.
type Document struct {
	Text []byte
	// Serial is the serial number, 0 for a document that is not signed.
	Serial   uint64
	envelope dsse.Envelope
}

// payloadType is the type of the payload of an envelope.
const payloadType = "application/vnd.loam.machine.v1+json"

// payload is what a signature covers.
type payload struct {
	Serial  uint64 `json:"serial"`
	Machine string `json:"machine"`
}

// IsEnvelope reports whether text is meant to be a signed machine.yaml. It is a
// JSON object then, which a machine.yaml may be, too.
func IsEnvelope(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) &&
		bytes.Contains(text, []byte(`"payloadType"`))
}

// byteOrderMark is what editors of Windows put before a text.
const byteOrderMark = "\ufeff"

// Open reads a machine.yaml that may be signed. It verifies no signature.
func Open(text []byte) (Document, error) {
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	if !IsEnvelope(text) {
		return Document{Text: text}, nil
	}

	var p payload
	e, err := dsse.Parse(text, payloadType)
	if err == nil {
		err = dsse.Strictly(e.Payload, &p)
	}
	if err == nil && p.Serial == 0 {
		err = errors.New("it has no serial number")
	}
	if err != nil {
		return Document{}, hint.With(
			fault.With(fmt.Errorf("signed machine.yaml: %w", err), fault.DocumentInvalid),
			"write it again with loamctl machine sign",
		)
	}

	return Document{Text: []byte(p.Machine), Serial: p.Serial, envelope: e}, nil
}

// SignedBy reports whether one of the keys has signed the document.
func (d Document) SignedBy(keys Keys) bool { return len(d.Signers(keys)) > 0 }

// Signers returns which of the keys have signed the document.
func (d Document) Signers(keys Keys) Keys { return d.envelope.Signers(keys...) }

// Sign returns the signed form of a machine.yaml. serial is not 0. The keys are
// ed25519.
func Sign(text []byte, serial uint64, keys ...crypto.Signer) ([]byte, error) {
	if !utf8.Valid(text) {
		return nil, fault.With(errors.New("machine.yaml is not UTF-8"), fault.DocumentInvalid)
	}

	p, err := json.Marshal(payload{Serial: serial, Machine: string(text)})
	if err != nil {
		return nil, err
	}

	id := func(key ed25519.PublicKey) (string, error) { return FormatKey(key), nil }
	return dsse.Sign(payloadType, p, id, keys...)
}
