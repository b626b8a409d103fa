// Package cluster has the examples that a cluster of Loam's own gets, too.
package cluster

import _ "embed"

// Admission is admission.yaml: admission policies for what nodes may change, each with
// its binding.
//
//go:embed admission.yaml
var Admission string
