package recorded

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/units"
)

// fleet is nodes of one pool in one process. Each has its own directory and, as
// its certificate is its own, its own connection to the API server. Nothing
// watches their paths: one user may have 128 inotify instances
// (fs.inotify.max_user_instances).
type fleet struct {
	*fixture
	nodes []*Node
	image *os.Root // of all nodes
	seen  chan sighting
	// shown is the value that each Node was seen with last.
	shown map[string]string

	// upgrades are those of each node.
	upgrades []*upgrades

	// patience is how long a change may take to reach all nodes.
	patience time.Duration

	// obstacle is what stands in the way of jobs on a node, nil for nothing.
	obstacle func(ctx context.Context, node, verb, unit string) error
}

// sighting is that a Node was seen with a value of the annotation.
type sighting struct {
	node, value string
	at          time.Time
}

// newFleet starts so many nodes, which run the configuration text when it
// returns. steady is as of New.
func newFleet(t testing.TB, size int, steady time.Duration, text string) *fleet {
	t.Helper()
	return newFleetIn(t, controlPlanes.Borrow(t, cluster.Options{}), size, steady, text, nil)
}

// newFleetIn is newFleet in a cluster, with an obstacle for jobs.
func newFleetIn(
	t testing.TB, c *cluster.Cluster, size int, steady time.Duration, text string,
	obstacle func(ctx context.Context, node, verb, unit string) error,
) *fleet {
	t.Helper()
	openFiles(t, size)

	f := &fleet{
		fixture: &fixture{TB: t, token: "token", Cluster: c},
		seen:    make(chan sighting, 16*size),
		shown:   map[string]string{},

		obstacle: obstacle,
		patience: 2 * time.Minute,
	}

	f.allow()
	f.countRequests()
	f.says(text)

	dir := fleetDir(t)
	f.image = imageIn(t, dir)
	for i := range size {
		f.add(filepath.Join(dir, fmt.Sprint(i)), fmt.Sprintf("node-%d", i), steady)
	}

	f.run(text)
	f.rested()
	return f
}

// openFiles lets the process open as many files as so many nodes need; root may
// raise the limit.
func openFiles(t testing.TB, nodes int) {
	t.Helper()
	need := 4 * uint64(nodes) // two directories, a connection, and a file now and then
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	if err == nil && limit.Max < need {
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: need, Max: need})
	}
	if err != nil {
		t.Fatalf("%d nodes need %d open files, the limit is %d (%v)\nhint: ulimit -Hn",
			nodes, need, limit.Max, err)
	}
}

// fleetDir is in memory where it can be: a thousand nodes have a thousand
// disks.
func fleetDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "loam-fleet-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// imageIn makes the image of all nodes below dir.
func imageIn(t testing.TB, dir string) *os.Root {
	t.Helper()
	path := filepath.Join(dir, "image")
	for _, name := range []string{"usr/lib/systemd/system", "etc"} {
		if err := os.MkdirAll(filepath.Join(path, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	image, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = image.Close() })
	return image
}

// allow is examples/cluster/rbac.yaml without names of Nodes and their Leases:
// who may write which of a thousand is decided by a webhook where Gardener is.
func (f *fleet) allow() {
	const path = "/apis/rbac.authorization.k8s.io/v1/"
	f.must(http.MethodPost, path+"clusterroles", `{"metadata": {"name": "fleet"}, "rules": [
		{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["`+secretName+`", "ca"], "verbs": ["get", "list", "watch"]},
		{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "watch", "create", "update"]},
		{"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["get", "list", "watch", "patch"]},
		{"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}]}`)
	f.must(http.MethodPost, path+"clusterrolebindings", `{"metadata": {"name": "fleet"},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "fleet"},
		"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "`+agentGroup+`"}]}`)
}

// add makes a node that has joined.
func (f *fleet) add(dir, name string, steady time.Duration) {
	f.Helper()
	f.must(http.MethodPost, nodes,
		fmt.Sprintf(`{"metadata": {"name": %q, "labels": {"kubernetes.io/hostname": %[1]q}}}`,
			name))

	f.admit(dir, name)
	c := f.config()
	c.Machine = name
	c.Hostname = name
	c.Tokens = nil

	slow := units.Slow(5 * time.Millisecond)
	systemd := &units.Fake{Around: slow}
	if f.obstacle != nil {
		systemd.Around = func(ctx context.Context, job units.Job, do func() error) error {
			return slow(ctx, job, func() error {
				if err := f.obstacle(ctx, name, job.Verb, job.Unit); err != nil {
					systemd.Set(job.Unit, unit.State{Active: "failed", Sub: "failed"})
					return err
				}
				return do()
			})
		}
	}
	process := ThisProcess()
	process.FreeMemory = func() {} // It would collect the garbage of all agents, for each one.
	process.Image = f.image
	n, err := NewIn(process, dir, c, "", systemd, steady, logger())
	if err != nil {
		f.Fatal(err)
	}

	u := newUpgrades()
	n.Agent.Upgrades = u
	f.upgrades = append(f.upgrades, u)
	f.nodes = append(f.nodes, n)
}
