// Package schema has the JSON schemas of machine.yaml and of
// OperatingSystemConfig, for editors. They are made from the types that nodes
// decode, and from the comments there; a test keeps them current.
package schema

import _ "embed"

// Machine and OSC are JSON schemas (draft 2020-12).
var (
	//go:embed machine.json
	Machine string
	//go:embed osc.json
	OSC string
)
