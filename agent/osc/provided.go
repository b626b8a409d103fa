package osc

import "slices"

// providedUnits and providedFiles are Gardener's own node agent. Loam is the
// node agent of its nodes, so they are accepted and left out.
var (
	providedUnits = []string{"gardener-node-agent.service", "gardener-node-init.service"}
	providedFiles = []string{"/opt/bin/gardener-node-agent"}
)

func (u Unit) provided() bool { return slices.Contains(providedUnits, u.Name) }

func (f File) provided() bool { return slices.Contains(providedFiles, f.Path) }
