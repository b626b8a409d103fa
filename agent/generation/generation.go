package generation

import (
	"fmt"
	"io/fs"
)

// Dir is where the tree is on a node, Link what /init and the agent point at
// the current generation of the running OS version, and managed files lead
// through. View is Dir once more, mounted read-only: what writes through a
// managed link gets an error, and not into the store.
const (
	Dir  = "/var/lib/loam"
	Link = "/run/loam/current"
	View = "/run/loam/state"
)

// Manifest is what one generation consists of. It is written last: a directory
// without one is no generation.
type Manifest struct {
	Number int `json:"number"`

	// Digest is config.Desired.Digest, 64 hex digits.
	Digest string `json:"digest"`

	// OSVersion is the IMAGE_VERSION that the generation was made under.
	OSVersion string `json:"osVersion"`

	// Source names the document that it came from, for people.
	Source string `json:"source"`

	// Entries are sorted by path.
	Entries []Entry `json:"entries"`

	// Units are sorted by name.
	Units []Unit `json:"units"`

	// Dirs are the directories that hold entries and that the image does not
	// have, sorted: they go when the last entry in them goes.
	Dirs []string `json:"dirs,omitempty"`

	// Synced are config.Desired.Synced.
	Synced []string `json:"synced,omitempty"`
}

// Name is the generation's directory name, such as 000042-0123456789ab.
func (m Manifest) Name() string {
	if m.Digest == "" {
		return ""
	}
	return fmt.Sprintf("%06d-%.12s", m.Number, m.Digest)
}

// Kind tells files from links.
type Kind string

const (
	KindFile Kind = "file"
	KindLink Kind = "link"
)

// Entry is one file or symbolic link. Path is absolute and clean.
type Entry struct {
	Path string `json:"path"`
	Kind Kind   `json:"kind"`
	// Mode, Digest (SHA-256 of the content, hex) and Size (bytes) are of files.
	Mode   fs.FileMode `json:"mode,omitempty"`
	Digest string      `json:"digest,omitempty"`
	Size   int64       `json:"size,omitempty"`
	// Target is what a link says.
	Target string `json:"target,omitempty"`
}

// Unit is what a generation wants of a systemd unit.
type Unit struct {
	Name string `json:"name"`

	// Own says that the unit's text, or its template's, is the generation's and
	// not the image's.
	Own bool `json:"own,omitempty"`

	// Enabled and Stopped are config.Unit's.
	Enabled bool `json:"enabled,omitempty"`
	Stopped bool `json:"stopped,omitempty"`

	// Restart says that the unit is restarted when it is first listed.
	Restart bool `json:"restart,omitempty"`

	// ImageEnabled says that the image itself enables the unit.
	ImageEnabled bool `json:"imageEnabled,omitempty"`

	// OnDemand says that a timer, path or socket unit starts the unit when it
	// is time: the unit may be down, and only its last result counts.
	OnDemand bool `json:"onDemand,omitempty"`

	// BySocket says that nothing but a socket starts the unit: it comes up with
	// the first connection, not before.
	BySocket bool `json:"bySocket,omitempty"`

	// Essential says that the node runs no pods without the unit: it is the
	// kubelet or containerd, or one of them requires it.
	Essential bool `json:"essential,omitempty"`

	// Triggers is the unit that this one, a socket, starts: systemd does not
	// start a socket whose service is up.
	Triggers string `json:"triggers,omitempty"`

	// Reloads says that the unit is reloaded, not restarted, when only files
	// of FilePaths change: X-ReloadIfChanged= in [Unit] is true.
	Reloads bool `json:"reloads,omitempty"`

	// BoundTo are the units whose stop or restart systemd makes one of this
	// unit.
	BoundTo []string `json:"boundTo,omitempty"`

	// FilePaths are files whose change restarts the unit: those it lists, and
	// the environment files it reads that are part of the generation.
	FilePaths []string `json:"filePaths,omitempty"`
}

// Error is a configuration that cannot become a generation.
type Error struct {
	// Unit is the unit at fault or, with "", Path the path.
	Unit, Path string
	// Problem and Hint are for a person; Hint may be empty.
	Problem string
	Hint    string
}

// Place is the unit or path at fault, for a person.
func (e *Error) Place() string {
	if e.Unit == "" {
		return e.Path
	}
	return "unit " + e.Unit
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s", e.Place(), e.Problem)
	if e.Hint != "" {
		text += "; hint: " + e.Hint
	}
	return text
}
