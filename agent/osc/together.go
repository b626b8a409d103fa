package osc

import (
	"cmp"
	"slices"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/unitfile"
)

// documentUnits is what a document says of its units together.
type documentUnits struct {
	instances instances
	// refused are the words of [Install] because of which a node refuses a unit.
	refused map[string][]unitfile.Fault
}

// readers are the units that read a text: names are all of one type, the one that the
// text belongs to comes first, and refused is of that.
type readers struct {
	names   []string
	refused []unitfile.Fault
}

// readers returns the units that read the texts of a unit.
func (d documentUnits) readers(unit string) readers {
	return readers{d.instances.names(unit), d.refused[unit]}
}

// refused returns the words of [Install] because of which a node refuses the units that
// the document enables.
func (o OperatingSystemConfig) refused() map[string][]unitfile.Fault {
	merged := map[string]*config.Unit{}
	mergeUnits(merged, o.Spec.Units)
	mergeUnits(merged, o.Status.ExtensionUnits)

	all := map[string][]unitfile.Fault{}
	for name, unit := range merged {
		if !unit.Enabled() {
			continue
		}

		texts := []string{*cmp.Or(unit.Content, new(""))}
		slices.SortFunc(unit.DropIns, func(a, b config.DropIn) int { return cmp.Compare(a.Name, b.Name) })
		for _, dropIn := range unit.DropIns {
			texts = append(texts, dropIn.Content)
		}
		_, faults := unitfile.Parse(texts...).Install().Links(name, "")
		all[name] = slices.DeleteFunc(faults, func(f unitfile.Fault) bool { return !f.Refused })
	}
	return all
}
