package liveness

import (
	"slices"

	"github.com/loam-os/loam/agent/status"
)

// StandingOf is how the unit name stands on a node of that status. While a
// change is applied no unit is probed: the change restarts them itself, and
// judges what becomes of them.
func StandingOf(name string, s status.Status) Standing {
	i := slices.IndexFunc(s.Units, func(u status.Unit) bool { return u.Name == name })
	switch {
	case i < 0:
		return Absent
	case s.Units[i].Active != "active" || s.Phase == status.Applying:
		return Down
	}
	return Up
}
