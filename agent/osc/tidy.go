package osc

import (
	"cmp"
	"slices"

	"github.com/loam-os/loam/agent/config"
)

// tidy sorts the lists that have no order, so that equal configurations have
// equal digests, and drops file paths that are not for this node.
func tidy(desired *config.Desired) {
	isFile := map[string]bool{}
	for _, file := range desired.Files {
		isFile[file.Path] = true
	}

	slices.SortFunc(desired.Files, func(a, b config.File) int {
		return cmp.Compare(a.Path, b.Path)
	})

	slices.SortFunc(desired.Units, func(a, b config.Unit) int {
		return cmp.Compare(a.Name, b.Name)
	})

	slices.SortFunc(desired.Probes, func(a, b config.Probe) int {
		return cmp.Compare(a.Path, b.Path)
	})

	for i := range desired.Units {
		unit := &desired.Units[i]
		slices.SortFunc(unit.DropIns, func(a, b config.DropIn) int {
			return cmp.Compare(a.Name, b.Name)
		})
		slices.Sort(unit.FilePaths)
		unit.FilePaths = slices.DeleteFunc(slices.Compact(unit.FilePaths), func(path string) bool {
			return !isFile[path]
		})
	}
}
