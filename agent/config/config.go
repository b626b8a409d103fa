// Package config is the desired state of a node as plain values: files and
// units, whatever document they came from. It is pure.
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// Desired is everything a configuration asks of a node. Files are sorted by
// path and Units by name; both are unique.
type Desired struct {
	Files []File `json:"files"`
	Units []Unit `json:"units"`

	// LeftOut is what the document asks for and the node goes without, sorted
	// by name; each name is there once.
	LeftOut []LeftOut `json:"leftOut,omitempty"`

	// Notes are what a person should know of the document.
	Notes []Note `json:"notes,omitempty"`

	// Synced are paths that the sync of a token writes: none of them is in
	// Files, and what is there stays when an earlier configuration had it.
	// Sorted.
	Synced []string `json:"synced,omitempty"`

	// Probes are registries to be reached before the file that points the
	// container runtime at them is put in place.
	Probes []Probe `json:"probes,omitempty"`

	// Update is what the node is asked to become beyond files and units; nil if
	// nothing.
	Update *Update `json:"update,omitempty"`
}

// LeftOut is a unit or a file of a document that the node goes without.
type LeftOut struct {
	// Name is that of the unit, or the file's path.
	Name string `json:"name"`
	// Why completes "is left out: ".
	Why string `json:"why"`
}

// Note says that the node follows a document, but not to the letter.
type Note struct {
	// Reason is a word for programs, as the reason of an Event.
	Reason string `json:"reason"`

	// Document, Line and Path are where in which document; Line counts from 1.
	// All are empty if the note is about the whole.
	Document string `json:"document,omitempty"`
	Line     int    `json:"line,omitempty"`
	Path     string `json:"path,omitempty"`

	// Problem says what the node does not do, Hint what to do about it, "" if
	// nothing.
	Problem string `json:"problem"`
	Hint    string `json:"hint,omitempty"`
}

// Reasons of a Note.
const (
	// NoteWarning is about a mistake in the document that the node overlooks.
	NoteWarning = "ConfigurationWarning"
	// NoteNoSSH says that SSH access is asked for.
	NoteNoSSH = "NoSSHAccess"
)

// String is the note in one line, as document.Error has it, without the hint.
func (n Note) String() string {
	var place strings.Builder
	place.WriteString(n.Document)

	if n.Line > 0 {
		fmt.Fprintf(&place, ":%d", n.Line)
	}
	if n.Path != "" {
		place.WriteString(" " + n.Path)
	}

	if place.Len() == 0 {
		return n.Problem
	}

	return strings.TrimSpace(place.String()) + ": " + n.Problem
}

// Probe is a file that waits until every one of URLs answers, whatever the
// answer is.
type Probe struct {
	// Path is one of Desired.Files.
	Path string `json:"path"`

	// URLs are of http or https; CACerts are files with PEM certificates to
	// trust besides the machine's.
	URLs    []string `json:"urls"`
	CACerts []string `json:"caCerts,omitempty"`
}

// Update is the version of what comes with the image or is replaced with care:
// OperatingSystemConfig's inPlaceUpdates.
type Update struct {
	// OSVersion is an IMAGE_VERSION, Kubelet a version such as 1.35.0.
	OSVersion string `json:"osVersion,omitempty"`
	Kubelet   string `json:"kubelet,omitempty"`

	// CertificateAuthorities and ServiceAccountKey are when the rotation of
	// each began; zero if none did.
	CertificateAuthorities time.Time `json:"certificateAuthorities,omitzero"`
	ServiceAccountKey      time.Time `json:"serviceAccountKey,omitzero"`
}

// File is a regular file. Path is absolute and clean. Mode holds permission
// bits and setuid, setgid and sticky as in io/fs. Owner is always root.
type File struct {
	Path    string      `json:"path"`
	Mode    fs.FileMode `json:"mode"`
	Content Content     `json:"content"`
}

// Unit is a systemd unit, of ours (Content set) or of the image's (Content
// nil, then DropIns, Enable and Command apply to the image's unit).
type Unit struct {
	Name string `json:"name"`
	// Content is the unit file's text; nil leaves the image's own.
	Content *string  `json:"content,omitempty"`
	DropIns []DropIn `json:"dropIns,omitempty"`
	// Enable nil means true, as in the OperatingSystemConfig contract.
	Enable *bool `json:"enable,omitempty"`
	// Command is "", "start", "restart" or "stop"; "" means start.
	Command Command `json:"command,omitempty"`
	// FilePaths are files whose change restarts the unit.
	FilePaths []string `json:"filePaths,omitempty"`
}

// Texts are the unit file, if there is one, and the drop-ins.
func (u Unit) Texts() []string {
	var texts []string
	if u.Content != nil {
		texts = append(texts, *u.Content)
	}
	for _, in := range u.DropIns {
		texts = append(texts, in.Content)
	}
	return texts
}

// DropIn is a file NAME in the directory UNIT.d.
type DropIn struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

// Command is what a configuration wants done with a unit.
type Command string

const (
	CommandStart   Command = "start"
	CommandRestart Command = "restart"
	CommandStop    Command = "stop"
)

// Enabled reports whether the unit is to be started at boot.
func (u Unit) Enabled() bool { return u.Enable == nil || *u.Enable }

// Stopped reports whether the unit is to be inactive.
func (u Unit) Stopped() bool { return u.Command == CommandStop || !u.Enabled() }

// Digest is the SHA-256 of the files and units in hex, 64 characters: equal
// configurations have equal digests.
func (d Desired) Digest() string {
	text, err := json.Marshal(Desired{Files: d.Files, Units: d.Units})
	if err != nil { // Desired holds nothing that JSON cannot express.
		panic(fmt.Sprintf("encode desired state: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
