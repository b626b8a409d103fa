package source

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// AcceptedName is the record of the document that configured the node ([Accepted]),
// relative to the root directory. Without it, any drive may give the node its
// machine.yaml, and needs a signature only if the image has keys.
const AcceptedName = "var/lib/loam/machine.json"

// Kind is the kind of place that a machine.yaml was found in.
type Kind string

// The kinds, in the order of Find.
const (
	FromParameter  Kind = "parameter"
	FromCredential Kind = "credential"
	FromFirmware   Kind = "fw_cfg"
	FromStart      Kind = "start" // the server or USB installer of a node in memory
	FromESP        Kind = "esp"
	FromDrive      Kind = "drive"
)

// Accepted is the machine.yaml that configured the node. Anybody can give a
// volume a label, and hot-plug a USB drive. So once a node has had a document,
// another drive does not count, until the node is reset. If keys are trusted,
// no other document counts that they have not signed: see [Verify].
type Accepted struct {
	Kind Kind `json:"kind"`
	// Digest is the SHA-256 of the document, with the host name beside it.
	Digest string `json:"digest"`
	// Serial is the serial number of the drive.
	Serial string `json:"serial,omitempty"`

	// Trust has the keys of the document, as trust.ParseKeys reads them.
	Trust string `json:"trust,omitempty"`
	// SignedSerial is the serial number of the document, 0 if it is not signed.
	SignedSerial uint64 `json:"signedSerial,omitempty"`

	// Name, Text and Hostname are the document itself, so that the node goes on
	// with it when it refuses another, or when its drive is gone. They are empty
	// if no keys are trusted and the document is not from a drive. Original is the
	// SHA-256 of the text that was found, if secrets have been taken out of Text.
	Name     string `json:"name,omitempty"`
	Text     string `json:"text,omitempty"`
	Original string `json:"original,omitempty"`
	Hostname string `json:"hostname,omitempty"`
}

// Accept returns the record of a document, which names the keys in trusted.
func Accept(d Document, trusted []string) Accepted {
	a := Accepted{
		Kind:         d.Kind,
		Digest:       d.digest(),
		Serial:       d.Serial,
		Trust:        strings.Join(trusted, ","),
		SignedSerial: d.SignedSerial,
	}
	if d.Verified || len(trusted) > 0 || d.Kind == FromDrive {
		a.Name = d.Name
		a.Text = string(d.Text)
		a.Hostname = d.Hostname
	}
	return a
}

// Document returns the accepted document; the error is ErrNone if the record
// does not have it.
func (a *Accepted) Document() (Document, error) {
	if a == nil || a.Text == "" {
		return Document{}, ErrNone
	}
	return Document{
		Name:         a.Name,
		Text:         []byte(a.Text),
		Hostname:     a.Hostname,
		Kind:         a.Kind,
		Serial:       a.Serial,
		SignedSerial: a.SignedSerial,
		Verified:     true,
		Kept:         true,
		Original:     a.Original,
	}, nil
}

// Redacted returns the record with less in its text, by redact. The document that
// was found counts all the same.
func (a Accepted) Redacted(redact func(name string, text []byte) []byte) Accepted {
	text := string(redact(a.Name, []byte(a.Text)))
	if text != a.Text && a.Original == "" {
		a.Original = sum([]byte(a.Text))
	}
	a.Text = text
	return a
}

// kept is the copy that the node has of a document, as a place.
type kept struct{ *Accepted }

func (k kept) Read(context.Context) (Document, error) { return k.Document() }

// hasDrive reports whether there is a copy of a drive's document.
func (a *Accepted) hasDrive() bool { return a != nil && a.Kind == FromDrive && a.Text != "" }

// mayRead reports whether a drive may be the document's drive. A drive without
// a serial number may be, if the document's drive had none either.
func (a *Accepted) mayRead(d Drive) bool {
	return a == nil || (a.Kind == FromDrive && a.Serial == d.Serial())
}

// needsText reports whether only the text tells which of so many drives is the
// document's: it had no serial number, or several have the same.
func (a *Accepted) needsText(drives int) bool {
	return a != nil && (a.Serial == "" || drives > 1)
}

// proves reports whether a drive's document counts. A signature or the same text
// proves it, and the drive's serial number as long as the node has had no
// configuration: whoever made a mistake corrects it on the drive.
func (a *Accepted) proves(d Document, configured bool) bool {
	return a == nil || d.Verified || a.Digest == d.digest() ||
		(a.Serial != "" && !configured)
}

// digest is the SHA-256 of the document, with the host name beside it.
func (d Document) digest() string { return sum(d.Text, []byte("\x00"+d.Hostname)) }

// TextDigest is the SHA-256 of the text of the document as it was found.
func (d Document) TextDigest() string { return cmp.Or(d.Original, sum(d.Text)) }

func sum(parts ...[]byte) string {
	hash := sha256.New()
	for _, part := range parts {
		hash.Write(part)
	}
	return hex.EncodeToString(hash.Sum(nil))
}
