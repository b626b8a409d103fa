package liveness

import (
	"slices"

	"github.com/loam-os/loam/agent/status"
)

// StandingOf returns the standing of the unit name on a node with that status.
// While a change is applied no unit is probed: the change restarts units
// itself, and judges the result.
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
