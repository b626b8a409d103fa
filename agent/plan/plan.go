package plan

import (
	"strings"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/unit"
)

// Plan lists the work in order: the files, a reload of systemd if Reload is
// set, then the units as listed.
type Plan struct {
	// From names the generation before; "" for the first.
	From string `json:"from"`
	// To names the new generation.
	To string `json:"to"`
	// Files are sorted by path.
	Files []File `json:"files,omitempty"`
	// Reload says that systemd reads its units again.
	Reload bool `json:"reload,omitempty"`
	// Units are sorted in the order of the work.
	Units []Action `json:"units,omitempty"`
	// Kept are the units that stay as they are, and why, sorted by name.
	Kept []Action `json:"kept,omitempty"`
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool { return len(p.Files) == 0 && !p.Reload && len(p.Units) == 0 }

// File is one managed path that changes.
type File struct {
	// Path is where it is on the node.
	Path string `json:"path"`
	// Change is what becomes of it: "added", "changed" or "removed".
	Change Change `json:"change"`
}

// Change is how a path changes.
type Change string

const (
	Added   Change = "added"
	Changed Change = "changed"
	Removed Change = "removed"
	// ModeOnly means the same content with other permission bits.
	ModeOnly Change = "mode"
)

// Action is what happens to one unit.
type Action struct {
	// Unit is the name of the unit.
	Unit string `json:"unit"`
	// Verb is what happens to it.
	Verb Verb `json:"verb"`

	// By is the unit to which this one is bound and with which systemd acts on
	// it; "" if systemd is asked directly.
	By string `json:"by,omitempty"`

	// Once says that the unit is on demand and runs now only because it is new
	// or has changed.
	Once bool `json:"once,omitempty"`

	// Why lists every reason, such as "drop-in 10-limits.conf added".
	Why []string `json:"why"`
}

// Verb is the request to systemd.
type Verb string

const (
	Stop    Verb = "stop"
	Start   Verb = "start"
	Restart Verb = "restart"
	Reload  Verb = "reload"
	Keep    Verb = "keep"
)

// Stage groups actions that may run at once. A stage begins when the one before
// is done. Stops come first, then sockets, which systemd starts only while
// their service is down, then the container runtime, then the rest, then the
// kubelet, which needs the runtime. Units on demand come last: a path unit must
// not miss a change, and nothing should wait for a long run.
func (a Action) Stage() int {
	switch {
	case a.Verb == Stop:
		return 0
	case strings.HasSuffix(a.Unit, ".socket"):
		return 1
	case a.Unit == "containerd.service":
		return 2
	case a.Unit == "kubelet.service":
		return 4
	case a.Once:
		return 5
	}
	return 3
}

// Observed is the state of units by name. A missing unit is assumed to be as
// the previous generation wants it.
type Observed map[string]unit.State

// id returns systemd's own name of a unit.
func (o Observed) id(name string) string {
	if id := o[name].ID; id != "" {
		return id
	}
	return name
}

// Diff returns the plan from the running generation have to want. have is the
// zero Manifest on a node without a configuration.
func Diff(have, want generation.Manifest, observed Observed) Plan {
	changes := diffEntries(have.Entries, want.Entries)
	p := Plan{
		From:   have.Name(),
		To:     want.Name(),
		Files:  changes.list,
		Reload: changes.concernUnits(),
	}

	for _, a := range diffUnits(have, want, changes, observed) {
		if a.Verb == Keep {
			p.Kept = append(p.Kept, a)
		} else {
			p.Units = append(p.Units, a)
		}
	}

	return p
}
