package plan

import (
	"maps"
	"slices"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/unitfile"
)

// listed is a unit of a generation under all the names that the generation
// lists. Where they disagree, Unit is the entry under the plan's name.
type listed struct {
	generation.Unit
	names []string
}

// aliases maps systemd's own name of a unit to the plan's name of it:
// systemd's, if one of the generations lists it. systemd forgets the other
// names when the unit's file is removed.
type aliases struct {
	observed Observed
	inPlan   map[string]string
}

func newAliases(have, want generation.Manifest, observed Observed) aliases {
	a := aliases{observed, map[string]string{}}
	for _, u := range slices.Concat(have.Units, want.Units) {
		id := observed.id(u.Name)
		if a.inPlan[id] == "" || u.Name == id {
			a.inPlan[id] = u.Name
		}
	}
	return a
}

// merge joins the entries of a generation that are the same unit for systemd,
// by their name in the plan. No unit runs under a template's own name.
func (a aliases) merge(units []generation.Unit) map[string]*listed {
	all := map[string]*listed{}
	for _, u := range units {
		if unitfile.IsTemplate(u.Name) {
			continue
		}

		name := a.inPlan[a.observed.id(u.Name)]
		if u.Own {
			name = u.Name // A unit with a text of its own is not an alias, whatever it was before.
		}

		l := all[name]
		if l == nil {
			l = &listed{Unit: u}
			all[name] = l
		}

		files := slices.Concat(l.FilePaths, u.FilePaths)
		if u.Name == name {
			l.Unit = u
		}

		l.FilePaths = files
		l.names = append(l.names, u.Name)
	}

	return all
}

// eachOf returns the results of f for both units, sorted and without duplicates.
// Either unit may be nil.
func eachOf(have, want *listed, f func(*listed) []string) []string {
	var all []string
	for _, l := range []*listed{have, want} {
		if l != nil {
			all = append(all, f(l)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// keysOf returns the keys of both, sorted.
func keysOf(a, b map[string]*listed) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

// Names returns all units that the two generations concern. The caller observes
// them and the units that turn out to be bound to them (unit.State).
func Names(have, want generation.Manifest) []string {
	var all []string
	for _, u := range slices.Concat(have.Units, want.Units) {
		all = append(all, u.Name)
	}

	for _, u := range want.Units {
		if u.Triggers != "" {
			all = append(all, u.Triggers)
		}
	}

	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), unitfile.IsTemplate)
}
