package plan

import (
	"maps"
	"slices"

	"github.com/loam-os/loam/agent/generation"
)

// listed is a unit of a generation under all the names that this lists it by.
// Where they disagree, the Unit is as it is listed under the name in the plan.
type listed struct {
	generation.Unit
	names []string
}

// aliases says which name the plan has for a unit that goes by several, by the
// name that systemd itself uses: that one, if one of the generations lists it.
// It forgets the others when the unit's file goes.
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

// merge makes one of the units of a generation that are the same unit for
// systemd, by their name in the plan. Nothing runs under a template's own name.
func (a aliases) merge(units []generation.Unit) map[string]*listed {
	all := map[string]*listed{}
	for _, u := range units {
		if generation.IsTemplate(u.Name) {
			continue
		}

		name := a.inPlan[a.observed.id(u.Name)]
		if u.Own {
			name = u.Name // A unit with a text of its own is no alias, whatever it was.
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

// eachOf lists what f gives of both units, either of which may be nil, sorted
// and each once.
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

// keysOf are the keys of both, sorted.
func keysOf(a, b map[string]*listed) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

// Names are all units that either generation bears on: those to observe, with
// those that they turn out to be bound by (unit.State).
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
	return slices.DeleteFunc(slices.Compact(all), generation.IsTemplate)
}
