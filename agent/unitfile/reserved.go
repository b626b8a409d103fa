package unitfile

import (
	"slices"
	"strings"
)

// awaited are the units of the image that the node agent starts after. What holds one
// of them up would keep the agent from starting, with nothing left to revert it.
var awaited = []string{"systemd-journald.socket", "systemd-tmpfiles-setup.service"}

// IsReserved reports whether no configuration may bring, extend or hold up a unit of
// that name, or the units that it is a prefix of: it is Loam's own, or the node agent
// starts after it.
func IsReserved(name string) bool {
	reads := func(unit string) bool { return slices.Contains(DropInNames(unit), name) }
	return strings.HasPrefix(name, "loam.") || strings.HasPrefix(name, "loam-") ||
		slices.ContainsFunc(awaited, reads)
}
