package generation

import (
	"fmt"
	"io/fs"
	"regexp"
	"strconv"

	"github.com/loam-os/loam/hint/fault"
)

// Dir is the tree on a node. Link points to the current generation of the
// running OS version; /init and the agent set it, and managed files lead
// through it. View is Dir mounted read-only: a write through a managed link
// fails and does not reach the store.
const (
	Dir  = "/var/lib/loam"
	Link = "/run/loam/current"
	View = "/run/loam/state"
)

// Manifest describes one generation. It is written last: a directory without
// one is not a generation.
type Manifest struct {
	Number int `json:"number"`

	// Digest is config.Desired.Digest, 64 hex digits.
	Digest string `json:"digest"`

	// OSVersion is the IMAGE_VERSION under which the generation was made.
	OSVersion string `json:"osVersion"`

	// Source names the generation's document, for display.
	Source string `json:"source"`

	// Entries are sorted by path.
	Entries []Entry `json:"entries"`

	// Units are sorted by name.
	Units []Unit `json:"units"`

	// Dirs are the directories that hold entries and that the image does not
	// have, sorted. They are removed with the last entry in them.
	Dirs []string `json:"dirs,omitempty"`

	// Synced is config.Desired.Synced.
	Synced []string `json:"synced,omitempty"`
}

// Name returns the generation's directory name, such as 000042-0123456789ab.
func (m Manifest) Name() string {
	if m.Digest == "" {
		return ""
	}
	return fmt.Sprintf("%06d-%.12s", m.Number, m.Digest)
}

// reference is how an operator writes a generation: a number or a name.
var reference = regexp.MustCompile(`^[0-9]{1,9}(-[0-9a-f]{12})?$`)

// IsReference reports whether text can be the number or the name of a generation.
func IsReference(text string) bool { return reference.MatchString(text) }

// Is reports whether text, for which [IsReference] holds, is the number or the
// name of m. A number may have zeros before it, as the number in a name has.
func (m Manifest) Is(text string) bool {
	number, err := strconv.Atoi(text)
	return text == m.Name() || (err == nil && number == m.Number)
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
	// Mode, Digest (SHA-256 of the content, hex) and Size (bytes) are set for
	// files.
	Mode   fs.FileMode `json:"mode,omitempty"`
	Digest string      `json:"digest,omitempty"`
	Size   int64       `json:"size,omitempty"`
	// Target is the target of a link.
	Target string `json:"target,omitempty"`
}

// Unit is the desired state of a systemd unit.
type Unit struct {
	Name string `json:"name"`

	// Own says that the text of the unit, or of its template, is in the
	// generation and not in the image.
	Own bool `json:"own,omitempty"`

	// Enabled and Stopped are from config.Unit.
	Enabled bool `json:"enabled,omitempty"`
	Stopped bool `json:"stopped,omitempty"`

	// Restart says that the unit is restarted when it is first listed.
	Restart bool `json:"restart,omitempty"`

	// ImageEnabled says that the image itself enables the unit.
	ImageEnabled bool `json:"imageEnabled,omitempty"`

	// OnDemand says that a timer, path or socket unit starts the unit. The unit
	// may be down, and only its last result counts.
	OnDemand bool `json:"onDemand,omitempty"`

	// BySocket says that only a socket starts the unit, with the first
	// connection.
	BySocket bool `json:"bySocket,omitempty"`

	// Essential says that the node runs no pods without the unit: it is the
	// kubelet or containerd, or one of them requires it.
	Essential bool `json:"essential,omitempty"`

	// Triggers is the unit that this one, a socket, starts. systemd does not
	// start a socket whose service is up.
	Triggers string `json:"triggers,omitempty"`

	// Reloads says that the unit is reloaded, not restarted, when only files
	// of FilePaths change: X-ReloadIfChanged= in [Unit] is true.
	Reloads bool `json:"reloads,omitempty"`

	// BoundTo are the units with which systemd stops or restarts this unit.
	BoundTo []string `json:"boundTo,omitempty"`

	// FilePaths are files whose change restarts the unit: its listed ones and
	// the environment files in the generation that it reads.
	FilePaths []string `json:"filePaths,omitempty"`
}

// Error is a configuration that cannot become a generation.
type Error struct {
	// Unit is the unit at fault. If it is empty, Path is the path at fault.
	Unit, Path string
	// Problem and Hint are for display; Hint may be empty.
	Problem string
	Hint    string
}

// Place returns the unit or path at fault, for display.
func (e *Error) Place() string {
	if e.Unit == "" {
		return e.Path
	}
	return "unit " + e.Unit
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s", e.Place(), e.Problem)
}

// Hints implements [hint.Hinted].
func (e *Error) Hints() []string {
	if e.Hint == "" {
		return nil
	}
	return []string{e.Hint}
}

// FaultCode implements [fault.Coder].
func (e *Error) FaultCode() fault.Code { return fault.CannotBeApplied }
