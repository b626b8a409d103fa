package shoot

import (
	"testing"

	"github.com/loam-os/loam/test/program"
)

// NodeAgentProgram is the name of Gardener's own node agent.
const NodeAgentProgram = "gardener-node-agent"

// reference is the module of Gardener's own node agent, of the newest version.
var reference = program.Module{
	Name:    "gardener-node-agent",
	Dir:     "test/gardener",
	Release: "github.com/gardener/gardener",
	Programs: []program.Program{{
		Name:    NodeAgentProgram,
		Package: "github.com/gardener/gardener/cmd/gardener-node-agent",
	}},
}

// validating is the module of the program validate, of the newest version.
var validating = program.Module{
	Name:     "gardener-validator",
	Dir:      "test/gardener",
	Release:  "github.com/gardener/gardener",
	Programs: []program.Program{{Name: "validate", Package: "./validate"}},
}

// NodeAgent returns the path of Gardener's own node agent, which Loam is
// measured beside, and its version, which is in the name of its configuration
// file. As [Run], it skips the test where the program has not been built.
func NodeAgent(t testing.TB) (path, version string) {
	t.Helper()

	version, err := reference.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return built(t, reference, NodeAgentProgram), version
}
