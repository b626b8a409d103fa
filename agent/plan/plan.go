package plan

import (
	"strings"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/unit"
)

// Plan is what there is to do, in this order: the files, a reload of systemd if
// Reload says so, the units as they are listed.
type Plan struct {
	// From and To name generations; From is "" for the first.
	From string `json:"from"`
	To   string `json:"to"`
	// Files are sorted by path.
	Files  []File   `json:"files,omitempty"`
	Reload bool     `json:"reload,omitempty"`
	Units  []Action `json:"units,omitempty"`
	// Kept are the units that nothing is done with, and why, sorted by name.
	Kept []Action `json:"kept,omitempty"`
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool { return len(p.Files) == 0 && !p.Reload && len(p.Units) == 0 }

// File is one managed path that changes.
type File struct {
	Path   string `json:"path"`
	Change Change `json:"change"`
}

// Change is how a path changes.
type Change string

const (
	Added   Change = "added"
	Changed Change = "changed"
	Removed Change = "removed"
	// ModeOnly is a file with the same content and other permission bits.
	ModeOnly Change = "mode"
)

// Action is what is done with one unit.
type Action struct {
	Unit string `json:"unit"`
	Verb Verb   `json:"verb"`

	// By is the unit through which systemd does it, as this one is bound to it;
	// "" where systemd is asked for it.
	By string `json:"by,omitempty"`

	// Once says that the unit is on demand and runs now only because it is new
	// or has changed.
	Once bool `json:"once,omitempty"`

	// Why lists every reason, such as "drop-in 10-limits.conf added".
	Why []string `json:"why"`
}

// Verb is what systemd is asked for.
type Verb string

const (
	Stop    Verb = "stop"
	Start   Verb = "start"
	Restart Verb = "restart"
	Reload  Verb = "reload"
	Keep    Verb = "keep"
)

// Stage groups actions that may run at once: all of a stage are done before
// the next begins. Stops come first, then sockets, which systemd starts only
// while their service is down, then the container runtime, then the rest, then
// kubelet, which talks to the runtime. What is on demand comes last: no change
// that a path unit watches for may be missed, and nothing waits for a long run.
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

// Observed is the state of units by name. A unit that is not in it is taken to
// be as the generation before wants it.
type Observed map[string]unit.State

// id is the name that systemd itself uses for a unit.
func (o Observed) id(name string) string {
	if id := o[name].ID; id != "" {
		return id
	}
	return name
}

// Diff decides what leads from the node as it runs have to one that runs want.
// have is the zero Manifest on a node that has no configuration yet.
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
