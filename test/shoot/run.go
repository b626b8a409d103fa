package shoot

import (
	"os"
	"testing"

	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/program"
)

// Names that Gardener gives to node agents in certificates, and to their
// objects.
const (
	// AgentGroup is the organization of a node agent's certificate.
	AgentGroup = "gardener.cloud:node-agents"
	// AgentPrefix and the name of the machine are its common name.
	AgentPrefix = "gardener.cloud:node-agent:machine:"
	// PoolLabel is the label of OperatingSystemConfig Secrets, and of Nodes.
	PoolLabel = "worker.gardener.cloud/pool"
	// SecretNameLabel is the label of Machines and Nodes with the name of their
	// OperatingSystemConfig Secret.
	SecretNameLabel = "worker.gardener.cloud/gardener-node-agent-secret-name"
)

// Options configure a control plane.
type Options struct {
	// Cluster are the options of the control plane itself.
	Cluster cluster.Options
	// MachineNamespace is where Machine objects are, which say as which Node a
	// machine has come up: a Shoot of a seed, whose machines Gardener manages.
	// Run defines them in the cluster itself, as it has no seed. If it is
	// empty, a machine has the name of its Node, as with gardenadm.
	MachineNamespace string
}

// Run starts a control plane in which Gardener's own authorizer judges all
// requests of node agents, and its approver their certificates, for the time of
// t. A node agent has no other rights: the cluster has no RBAC for it.
//
// Where the programs have not been built yet, the test is skipped; with CI set,
// they are built (which takes minutes) and what goes wrong is a failure.
func Run(t testing.TB, o Options) *cluster.Cluster {
	t.Helper()

	authorizer := cluster.Authorizer{
		Name:    "node-agent-authorizer",
		Program: authorizerProgram(t),
		Path:    "/webhooks/auth/nodeagent",
		Match:   "'" + AgentGroup + "' in request.groups",
	}

	if o.MachineNamespace != "" {
		authorizer.Args = append(authorizer.Args, "--machine-namespace="+o.MachineNamespace)
	}

	o.Cluster.Authorizers = append(o.Cluster.Authorizers, authorizer)
	return cluster.Start(t, o.Cluster)
}

// judging is the module of the program authorizer, of the newest version.
var judging = program.Module{
	Name:     "gardener-authorizer",
	Dir:      "test/gardener",
	Release:  "github.com/gardener/gardener",
	Programs: []program.Program{{Name: "authorizer", Package: "./authorizer"}},
}

func authorizerProgram(t testing.TB) string {
	t.Helper()
	return built(t, judging, "authorizer")
}

// instead is what short mode has in place of a real Gardener, whose programs
// take a quarter of an hour to build.
const instead = "test/recorded at a real API server, and agent/osc"

// built returns the path of a program of a module.
func built(t testing.TB, m program.Module, name string) string {
	t.Helper()
	judge.Long(t, instead)

	paths, err := m.Locate(t.Context())
	if err == nil && os.Getenv("CI") != "" {
		paths, err = m.Ensure(t.Context(), t.Output())
	}

	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(paths[name]); err != nil {
		t.Skipf("%v: go run ./test/shoot/build builds it, once, in minutes", err)
	}

	return paths[name]
}
