package show

import (
	"fmt"
	"strings"
)

// Reset is what a reset removes.
type Reset struct {
	Host string

	// Generation is the current one, "" if none; Units are its units.
	Generation string
	Units      []string
	Files      int

	// Pods are the pods of the container runtime, namespace/name. Unknown is
	// why they could not be listed.
	Pods    []string
	Unknown string

	// Encrypted means that the state is encrypted, so that it loses its key.
	Encrypted bool

	// Identity are the existing directories of the node's identity.
	Identity []string
}

// String describes the reset to the operator who must confirm it.
func (r Reset) String() string {
	generation := "none"
	if r.Generation != "" {
		generation = fmt.Sprintf("%s and all before it, with %s and %s",
			r.Generation, count(len(r.Units), "unit"), count(r.Files, "file"))
	}

	pods := list(r.Pods)
	if r.Unknown != "" {
		pods = "not known: " + r.Unknown
	}

	var out strings.Builder
	fmt.Fprintf(&out, "reset of %s takes away, for good\n", r.Host)

	for _, row := range [][2]string{
		{"generation", generation},
		{"units", list(r.Units)},
		{"pods", pods},
		{"identity", list(r.Identity)},
	} {
		fmt.Fprintf(&out, "  %-10s  %s\n", row[0], row[1])
	}

	if r.Encrypted {
		fmt.Fprintf(&out, "  %-10s  %s\n", "state",
			"its key, and the recovery key; the machine restarts and shows a new one")
	}

	return out.String()
}

func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
