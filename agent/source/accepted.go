package source

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

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
	// with it when it refuses another. They are empty if no keys are trusted.
	Name     string `json:"name,omitempty"`
	Text     string `json:"text,omitempty"`
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
	if d.Verified || len(trusted) > 0 {
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
	}, nil
}

// mayRead reports whether a drive may be the document's drive. A drive without
// a serial number may be, if the document's drive had none either.
func (a *Accepted) mayRead(d Drive) bool {
	return a == nil || a.Kind == FromDrive && a.Serial == d.Serial()
}

// needsText reports whether only the text tells which of so many drives is the
// document's: it had no serial number, or several have the same.
func (a *Accepted) needsText(drives int) bool {
	return a != nil && (a.Serial == "" || drives > 1)
}

// proves reports whether a document is from the same drive. A signature or the
// drive's serial number proves it, and without them only the same text.
func (a *Accepted) proves(d Document) bool {
	return a == nil || d.Verified || a.Serial != "" || a.Digest == d.digest()
}

// digest is the SHA-256 of the document, with the host name beside it.
func (d Document) digest() string {
	sum := sha256.New()
	sum.Write(d.Text)
	sum.Write([]byte("\x00" + d.Hostname))
	return hex.EncodeToString(sum.Sum(nil))
}
