// Package config has the desired state of a node as plain values: files and
// units, from any kind of document. It is pure.
package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// Desired is everything that a configuration asks of a node. Files are sorted
// by path and Units by name; both are unique.
type Desired struct {
	Files []File `json:"files"`
	Units []Unit `json:"units"`

	// LeftOut is what the document asks for and the node leaves out, sorted by
	// name and unique.
	LeftOut []LeftOut `json:"leftOut,omitempty"`

	// Notes are what an operator should know about the document.
	Notes []Note `json:"notes,omitempty"`

	// Synced are paths that the sync of a token writes. None of them is in
	// Files, and a file that an earlier configuration had stays there. Sorted.
	Synced []string `json:"synced,omitempty"`

	// Probes are registries that must be reachable before the file that points
	// the container runtime at them is written.
	Probes []Probe `json:"probes,omitempty"`

	// Update is what the configuration asks for besides files and units; nil
	// for nothing.
	Update *Update `json:"update,omitempty"`
}

// Sorted returns d with its files and units in their order.
func (d Desired) Sorted() Desired {
	slices.SortFunc(d.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(d.Units, func(a, b Unit) int { return cmp.Compare(a.Name, b.Name) })
	return d
}

// LeftOut is a unit or a file of a document that the node leaves out.
type LeftOut struct {
	// Name is the name of the unit, or the path of the file.
	Name string `json:"name"`
	// Why completes "is left out: ".
	Why string `json:"why"`
}

// Note is about a part of a document that the node does not follow to the
// letter.
type Note struct {
	// Reason is a machine-readable word, as in the reason of an Event.
	Reason string `json:"reason"`

	// Document is the file of the document, "" if the note is about the entire
	// document.
	Document string `json:"document,omitempty"`
	// Line is the line in it, from 1; 0 if the note is about the entire document.
	Line int `json:"line,omitempty"`
	// Path is the field, "" if the note is about the entire document.
	Path string `json:"path,omitempty"`

	// Problem is what the node does not do.
	Problem string `json:"problem"`
	// Hint is how to change that, or "".
	Hint string `json:"hint,omitempty"`
}

// Values of Note.Reason.
const (
	// NoteWarning is for a mistake in the document that the node overlooks.
	NoteWarning = "ConfigurationWarning"
	// NoteNoSSH is for a document that asks for SSH access.
	NoteNoSSH = "NoSSHAccess"
)

// String returns the note as a line in the form of document.Error, without the
// hint.
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

// Probe is a file that waits until every URL answers, with any status.
type Probe struct {
	// Path is the path of a file in Desired.Files.
	Path string `json:"path"`

	// URLs are http or https.
	URLs []string `json:"urls"`
	// CACerts are files with PEM certificates to trust besides the machine's.
	CACerts []string `json:"caCerts,omitempty"`
}

// Update has the versions of what comes with the image or is replaced with
// care: inPlaceUpdates of an OperatingSystemConfig.
type Update struct {
	// OSVersion is an IMAGE_VERSION.
	OSVersion string `json:"osVersion,omitempty"`
	// Kubelet is a version such as 1.35.0.
	Kubelet string `json:"kubelet,omitempty"`

	// CertificateAuthorities is when their rotation began; zero if it has not.
	CertificateAuthorities time.Time `json:"certificateAuthorities,omitzero"`
	// ServiceAccountKey is when its rotation began; zero if it has not.
	ServiceAccountKey time.Time `json:"serviceAccountKey,omitzero"`
}

// File is a regular file. Path is absolute and clean. Mode holds permission
// bits and setuid, setgid and sticky as in io/fs. Owner is always root.
type File struct {
	Path    string      `json:"path"`
	Mode    fs.FileMode `json:"mode"`
	Content Content     `json:"content"`
}

// Unit is a systemd unit: Loam's own if Content is set, otherwise the image's,
// to which DropIns, Enable and Command apply.
type Unit struct {
	Name string `json:"name"`
	// Content is the unit file's text; nil keeps the image's.
	Content *string  `json:"content,omitempty"`
	DropIns []DropIn `json:"dropIns,omitempty"`
	// Enable nil means true, as in the OperatingSystemConfig contract.
	Enable *bool `json:"enable,omitempty"`
	// Command is "", "start", "restart" or "stop"; "" means start.
	Command Command `json:"command,omitempty"`
	// FilePaths are files whose change restarts the unit.
	FilePaths []string `json:"filePaths,omitempty"`
}

// Texts returns the unit file, if set, and the drop-ins.
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

// DropIn is the file NAME in the directory UNIT.d.
type DropIn struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

// Command is the action that a configuration requests for a unit.
type Command string

const (
	CommandStart   Command = "start"
	CommandRestart Command = "restart"
	CommandStop    Command = "stop"
)

// Enabled reports whether the unit should start at boot.
func (u Unit) Enabled() bool { return u.Enable == nil || *u.Enable }

// Stopped reports whether the unit should be inactive.
func (u Unit) Stopped() bool { return u.Command == CommandStop || !u.Enabled() }

// Digest returns the SHA-256 of the files and units as 64 hex digits. Equal
// configurations have equal digests.
func (d Desired) Digest() string {
	text, err := json.Marshal(Desired{Files: d.Files, Units: d.Units})
	if err != nil { // Desired holds nothing that JSON cannot express.
		panic(fmt.Sprintf("encode desired state: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
