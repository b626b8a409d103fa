package show

import (
	"maps"
	"slices"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/plan"
)

// Unit is a unit whose desired state differs between two generations. The
// unit's text is a file.
type Unit struct {
	// Name is its name.
	Name string `json:"name"`
	// Change is what becomes of it: "added", "changed" or "removed".
	Change plan.Change `json:"change"`
	// Was is what no longer holds.
	Was []string `json:"was,omitempty"`
	// Is is what holds instead.
	Is []string `json:"is,omitempty"`
}

// diffUnits compares the desired state of units in two generations.
func diffUnits(have, want []generation.Unit) []Unit {
	before := describeAll(have)
	after := describeAll(want)
	all := maps.Clone(before)
	maps.Copy(all, after)

	var units []Unit
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, listed := before[name]
		is, stays := after[name]
		u := Unit{
			Name:   name,
			Change: plan.Changed,
			Was:    without(was, is),
			Is:     without(is, was),
		}

		switch {
		case !listed:
			u.Change = plan.Added
		case !stays:
			u.Change = plan.Removed
		case len(u.Was)+len(u.Is) == 0:
			continue
		}

		units = append(units, u)
	}

	return units
}

func describeAll(units []generation.Unit) map[string][]string {
	byName := make(map[string][]string, len(units))
	for _, u := range units {
		byName[u.Name] = describe(u)
	}
	return byName
}

// describe returns the desired state of a unit in words.
func describe(u generation.Unit) []string {
	words := []string{choose(u.Enabled, "enabled", "disabled")}
	switch {
	case u.Stopped:
		words = append(words, "stopped")
	case u.OnDemand:
		words = append(words, "started on demand")
	default:
		words = append(words, "started")
	}

	words = append(words, choose(u.Own, "on its own unit file", "on the image's unit file"))
	if u.Restart {
		words = append(words, "restarted when first listed")
	}
	if u.Reloads {
		words = append(words, "reloaded instead of restarted")
	}

	for _, file := range u.FilePaths {
		words = append(words, "restarted with "+file)
	}

	for _, other := range u.BoundTo {
		words = append(words, "bound to "+other)
	}

	return words
}

func choose(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// without returns the words of all that are not in others.
func without(all, others []string) []string {
	var rest []string
	for _, word := range all {
		if !slices.Contains(others, word) {
			rest = append(rest, word)
		}
	}
	return rest
}
