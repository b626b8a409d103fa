package source

import (
	"crypto/sha256"
	"encoding/hex"
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
// another drive does not count, until the node is reset.
type Accepted struct {
	Kind Kind `json:"kind"`
	// Digest is the SHA-256 of the document, with the host name beside it.
	Digest string `json:"digest"`
	// Serial is the serial number of the drive.
	Serial string `json:"serial,omitempty"`
}

// Accept returns the record of a document.
func Accept(d Document) Accepted {
	sum := sha256.New()
	sum.Write(d.Text)
	sum.Write([]byte("\x00" + d.Hostname))
	return Accepted{Kind: d.Kind, Digest: hex.EncodeToString(sum.Sum(nil)), Serial: d.Serial}
}

// mayRead reports whether a drive may be the document's drive. A drive without
// a serial number may be, if the document's drive had none either.
func (a *Accepted) mayRead(d Drive) bool {
	return a == nil || a.Kind == FromDrive && a.Serial == d.Serial()
}

// proves reports whether a document is from the same drive. A serial number
// proves it, and without one only the same text.
func (a *Accepted) proves(d Document) bool {
	return a == nil || a.Serial != "" || a.Digest == Accept(d).Digest
}
