package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/agent/plane/etcd/disk"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
	index "github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/updates"
)

// syncsIn is a disk that takes that long for a sync.
func syncsIn(p99 time.Duration) disk.Probe {
	return func(context.Context, string) (time.Duration, error) { return p99, nil }
}

const clusterMachine = `apiVersion: loam.dev/v1alpha1
kind: Machine
hostname: node-1
`

// TestADiskTooSlowForEtcd: a refused machine has nothing of a cluster, and makes
// one at the next start if it may.
func TestADiskTooSlowForEtcd(t *testing.T) {
	const slow = "the disk of ROOT/var/lib is too slow for etcd: a sync takes up to 140 ms, want less than 100 ms"
	broken := func(context.Context, string) (time.Duration, error) { return 0, errors.New("no room") }

	type result struct {
		Cluster  string
		FsyncP99 time.Duration
		Error    string
		Code     string
		Path     string
		Warnings []string
	}
	for _, row := range []struct {
		name    string
		cluster string
		probe   disk.Probe
		want    result
	}{
		{
			name:    "a disk that is fast enough",
			cluster: "{init: {}}",
			probe:   syncsIn(99 * time.Millisecond),
			want:    result{Cluster: "kubernetes", FsyncP99: 99 * time.Millisecond},
		},
		{
			name:    "a slow disk",
			cluster: "{init: {}}",
			probe:   syncsIn(140 * time.Millisecond),
			want: result{
				Error: slow,
				Code:  string(fault.DiskTooSlow),
				Path:  "cluster.allowSlowDisk",
			},
		},
		{
			name:    "a slow disk that is allowed",
			cluster: "{init: {}, allowSlowDisk: true}",
			probe:   syncsIn(140 * time.Millisecond),
			want: result{
				Cluster:  "kubernetes",
				FsyncP99: 140 * time.Millisecond,
				Warnings: []string{slow},
			},
		},
		{
			name:    "a disk that cannot be measured",
			cluster: "{init: {}}",
			probe:   broken,
			want:    result{Error: "measure the disk of ROOT/var/lib: no room"},
		},
		{
			name:    "a slow disk of a machine that is no cluster",
			cluster: "{allowSlowDisk: true}",
			probe:   broken,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			n := unidentified(t)
			n.Fsync = row.probe
			files.Write(t, filepath.Join(n.Root, source.RunPath),
				clusterMachine+"cluster: "+row.cluster+"\n")
			n.reset = n.newReset()
			n.identify(t.Context())

			got := result{Cluster: nameOf(n.status.OwnCluster)}
			if n.controlPlane != nil {
				got.FsyncP99 = n.ownCluster().config(time.Time{}, n.first).FsyncP99
			}
			if n.status.Error != nil {
				got.Error = withoutRoot(n, n.status.Error.Problem)
				got.Code = string(n.status.Error.Code)
				got.Path = n.status.Error.Path
			}
			for _, warning := range n.status.Warnings {
				got.Warnings = append(got.Warnings, withoutRoot(n, warning))
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}

			if files := n.clusterFiles(t); len(files) > 0 {
				t.Errorf("%d files of a cluster, which has no address and no programs yet", len(files))
			}
		})
	}
}

// TestAnInitThatIsRefused changes nothing, and says where the mistake is and what to
// do.
func TestAnInitThatIsRefused(t *testing.T) {
	upgrade := publishKubernetes(t, "1.36.2")
	for name, row := range map[string]struct {
		init    string
		code    fault.Code
		path    string
		problem string
	}{
		"networks that overlap": {
			"pods: [10.96.0.0/12]", fault.DocumentInvalid, "cluster.init.services[0]",
			"10.96.0.0/16 overlaps 10.96.0.0/12 of pods[0]",
		},
		"a network of pods that is too small": {
			"pods: [10.1.0.0/25]", fault.DocumentInvalid, "cluster.init.pods[0]",
			"10.1.0.0/25 is too small: each node takes a /24 of it",
		},
		"a network of Services that is too small": {
			"services: [10.1.0.0/30]", fault.DocumentInvalid, "cluster.init.services[0]",
			"10.1.0.0/30 is too small for the services of a cluster",
		},
		"a version that is not known": {
			"kubernetes: 1.99.0", fault.DocumentInvalid, "cluster.init.kubernetes",
			`"1.99.0" is not known to this release of Loam`,
		},
		"a text that is no version": {
			"kubernetes: v1.37.2", fault.DocumentInvalid, "cluster.init.kubernetes",
			`"v1.37.2" is not a version of Kubernetes`,
		},
		"a name that is none": {
			"name: Plant_7", fault.DocumentInvalid, "cluster.init.name",
			`"Plant_7" is not the name of a cluster`,
		},
		"the node in the network of pods": {
			"pods: [198.51.100.0/24]", fault.CannotBeApplied, "cluster.init.pods[0]",
			"cluster kubernetes: the address 198.51.100.7 of this node is in the network " +
				"198.51.100.0/24 of the cluster",
		},
		"the node in the network of Services": {
			"name: plant-7, services: [198.51.100.0/28]", fault.CannotBeApplied,
			"cluster.init.services[0]",
			"cluster plant-7: the address 198.51.100.7 of this node is in the network " +
				"198.51.100.0/28 of the cluster",
		},
		"a version that the repository does not have": {
			"kubernetes: 1.36.3", fault.NoSuchRelease, "cluster.init.kubernetes",
			"cluster kubernetes: version 1.36.3 of Kubernetes for " + runtime.GOARCH +
				": not in the repository " + upgrade.Repository,
		},
		"another cluster": {
			"name: plant-8", fault.CannotBeApplied, "cluster.init.name",
			"init plant-8: this node belongs to another cluster, kubernetes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, first := range []bool{true, false} {
				other := row.path == "cluster.init.name" && row.code == fault.CannotBeApplied
				if first && other {
					continue // The node is free to become that one.
				}
				if !first && !other && row.code != fault.DocumentInvalid {
					continue // The record of the cluster counts.
				}
				checkInitRefused(t, upgrade, first, row.init, status.Error{
					Code:    row.code,
					Path:    row.path,
					Problem: row.problem,
				})
			}
		})
	}
}

// publishKubernetes returns a repository that has a version of Kubernetes.
func publishKubernetes(t *testing.T, version string) machine.Upgrade {
	t.Helper()
	in := index.KubernetesSources{
		Version: version,
		Arch:    runtime.GOARCH,
		Files:   map[string]index.Source{},
	}
	for _, name := range index.KubernetesPrograms() {
		in.Files["bin/"+name] = index.Source{ReaderAt: strings.NewReader(name), Size: int64(len(name))}
	}

	pack, err := os.Create(filepath.Join(t.TempDir(), "pack"))
	if err != nil {
		t.Fatal(err)
	}
	defer pack.Close()
	ix, err := index.WriteKubernetes(pack, in)
	if err != nil {
		t.Fatal(err)
	}
	repository := updates.New(t)
	repository.PublishKubernetes(ix, pack.Name())
	return machine.Upgrade{Repository: repository.Dir, Root: string(repository.Root())}
}

// clusterNode returns a machine with a machine.yaml that has cluster.init and a
// repository.
func clusterNode(t *testing.T, upgrade machine.Upgrade, init string) *testNode {
	t.Helper()
	n := unidentified(t)
	n.reset = n.newReset()
	n.startAs(t, upgrade, init)
	return n
}

// startAs starts the agent with another cluster.init.
func (n *testNode) startAs(t *testing.T, upgrade machine.Upgrade, init string) {
	t.Helper()
	n.status.Error = nil
	n.first = newCluster{}
	files.Write(t, filepath.Join(n.Root, source.RunPath), fmt.Sprintf(
		"%scluster: {init: {%s}}\nupgrade: {repository: %q, root: %q}\n",
		clusterMachine, init, upgrade.Repository, upgrade.Root))
	n.identify(t.Context())
}

// problem returns what the status shows once the loop has read the source.
func (n *testNode) problem(t *testing.T) *status.Error {
	t.Helper()
	if n.status.Error != nil || n.source == nil {
		return n.status.Error
	}
	doc, err := n.source.Read(t.Context())
	if err != nil {
		return loop.Describe(err)
	}
	_, err = n.controlPlane.Decode(t.Context(), doc)
	if errors.Is(err, source.ErrFetching) {
		n.others.Wait()
		_, err = n.controlPlane.Decode(t.Context(), doc)
	}
	return loop.Describe(err)
}

// repairingNode is a node whose loop repairs drift.
type repairingNode struct {
	*loopNode
	drift    chan []string
	repaired chan []string
}

func (r repairingNode) Set(string, []string) error { return nil }

func (r repairingNode) Events() <-chan []string { return r.drift }

func (r repairingNode) Err() error { return nil }

func (r repairingNode) Repair(
	_ context.Context, paths []string, _ map[string]config.Content,
) ([]string, error) {
	r.repaired <- paths
	return nil, nil
}

// TestTheLoopGoesOnWhileABundleIsFetched: a repository that hangs keeps the node from
// nothing, also not from a reset.
func TestTheLoopGoesOnWhileABundleIsFetched(t *testing.T) {
	n := clusterNode(t, publishKubernetes(t, "1.36.2"), "")
	hangs := make(chan struct{})
	built, err := n.Built()
	if err != nil {
		t.Fatal(err)
	}
	config := n.ownCluster().config(built, n.first)
	config.First = true
	config.Fetch = func(ctx context.Context, _ string, _ func(int64, int64)) error {
		close(hangs)
		<-ctx.Done()
		return ctx.Err()
	}
	n.controlPlane = local.New(*n.first.record, config)
	n.source = n.controlPlane

	ctx, end := context.WithCancelCause(t.Context())
	w := &loopNode{units: make(chan string)}
	fake := repairingNode{w, make(chan []string), make(chan []string)}
	op := operator{Requests: make(loop.Requests), reset: n.reset}
	agent := w.agent(op, end)
	agent.Engine = fake
	agent.Drift = fake
	agent.Source = n.source
	agent.Decoder = recordDecoder{w, n.controlPlane}
	agent.OwnCluster = n.controlPlane
	done := make(chan error)
	go func() { done <- agent.Run(ctx) }()

	<-hangs
	fake.drift <- []string{"/etc/a"}
	if paths := <-fake.repaired; !slices.Equal(paths, []string{"/etc/a"}) {
		t.Errorf("repaired %q", paths)
	}
	if err := op.Requests.RestartUnits(ctx, []string{"a.service"}); err != nil {
		t.Errorf("another request: %v", err)
	}
	if _, err := op.Requests.Reset(ctx); !errors.Is(err, loop.ErrReset) {
		t.Errorf("a reset: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	n.others.Wait()

	for _, s := range w.shown {
		if s.Error != nil || s.OwnCluster.Ready {
			t.Errorf("the status was %+v, %+v", s.Error, s.OwnCluster)
		}
	}
	const want = "version 1.37.2 of Kubernetes is being fetched"
	if s := w.shown[0]; s.Phase != status.Waiting || s.OwnCluster.Problem != want {
		t.Errorf("at first %s, %+v", s.Phase, s.OwnCluster)
	}
}

// makeCluster makes the node the first of its cluster.
func (n *testNode) makeCluster(t *testing.T) {
	t.Helper()
	_, err := n.planeStore().Init(*n.first.record, pki.Times{Built: built, Now: built})
	if err != nil {
		t.Fatal(err)
	}
}

// checkInitRefused starts a machine with an init that is refused, which is the first
// of no cluster yet or of one already.
func checkInitRefused(
	t *testing.T, upgrade machine.Upgrade, first bool, init string, want status.Error,
) {
	t.Helper()
	n := clusterNode(t, upgrade, "")
	if !first {
		n.makeCluster(t)
		n.startAs(t, upgrade, "")
	}
	before := n.clusterFiles(t)

	n.startAs(t, upgrade, init)
	got := n.problem(t)
	if got == nil || got.Hint == "" || got.Code != want.Code || got.Path != want.Path ||
		got.Problem != want.Problem {
		t.Errorf("got %+v, want %+v", got, want)
	}
	after := n.clusterFiles(t)
	if diff := cmp.Diff(before, after); diff != "" || first != (len(after) == 0) {
		t.Errorf("%d files, -before +after:\n%s", len(after), diff)
	}
}

// TestARefusalIsCorrected: the next start of the agent obeys another machine.yaml,
// with no reset, as long as the cluster was not made.
func TestARefusalIsCorrected(t *testing.T) {
	upgrade := publishKubernetes(t, "1.36.2")
	n := clusterNode(t, upgrade, "kubernetes: 1.36.3")
	refused := n.problem(t)
	if refused == nil || refused.Hint != "it has 1.36.2; `loamctl kubernetes bundle` publishes others" {
		t.Fatalf("a version that is not there: %+v", refused)
	}

	n.startAs(t, upgrade, "name: plant-7, kubernetes: 1.36.2, pods: [198.51.100.0/24]")
	refused = n.problem(t)
	if refused == nil || refused.Path != "cluster.init.pods[0]" {
		t.Fatalf("networks of the site: %+v", refused)
	}

	n.startAs(t, upgrade, "name: plant-7, kubernetes: 1.36.2")
	if got := nameOf(n.status.OwnCluster); got != "plant-7" || n.status.Error != nil || n.first.record == nil {
		t.Errorf("corrected: cluster %q, %+v", got, n.status.Error)
	}
}

// TestARepositoryThatDoesNotAnswer is waited for: the cluster is not made, and not
// refused either.
func TestARepositoryThatDoesNotAnswer(t *testing.T) {
	upgrade := publishKubernetes(t, "1.36.2")
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	upgrade.Repository = server.URL
	n := clusterNode(t, upgrade, "")
	got := n.problem(t)
	if got == nil || got.Code != fault.RepositoryUnreachable || got.Path != "" {
		t.Errorf("got %+v", got)
	}
	if files := n.clusterFiles(t); len(files) > 0 {
		t.Errorf("%d files of a cluster", len(files))
	}
}

// TestAClusterGoesOnAfterATrial: an upgrade has a next step.
func TestAClusterGoesOnAfterATrial(t *testing.T) {
	n := clusterNode(t, publishKubernetes(t, "1.36.2"), "")
	n.makeCluster(t)
	n.first = newCluster{}
	n.followRecord()
	digest, trying, err := currentChange(n.engine)
	if digest != "" || trying || err != nil {
		t.Errorf("it runs %q, on trial %v, %v", digest, trying, err)
	}

	n.runsVersion("1.2.3")
	files.Write(t, filepath.Join(n.Root, "os/1.2.3/current"), "not a link")
	digest, trying, err = currentChange(n.engine)
	if digest != "" || trying || err != nil {
		t.Errorf("damaged, it runs %q, on trial %v, %v", digest, trying, err)
	}

	changes, err := n.source.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pulled := decode.NewImages(durable.New(n.root, nil), decode.PreparedHosts, imagePolicy(n.machine),
		n.systemd.Start)
	host{life: n.life, pulled: pulled}.Proven(t.Context())
	<-changes
}

// TestProgramsOfAGenerationStay: the other system starts with its own generation after
// a fallback, and an operator may go back to an earlier one.
func TestProgramsOfAGenerationStay(t *testing.T) {
	n := unidentified(t)
	store := generation.Open(n.engine.Config().State)
	for i, row := range []struct{ version, system string }{
		{"1.36.1", "1.0.0"}, {"1.36.2", ""}, {"1.37.1", ""}, {"1.37.2", "2.0.0"},
	} {
		content := config.Text("[Service]\nExecStart=" + bundle.Directory + "/" + row.version +
			"/bin/kubelet --v=2\n")
		m := generation.Manifest{
			Number:    i + 1,
			Digest:    strings.Repeat(fmt.Sprint(i), 64),
			OSVersion: "1.0.0",
			Entries: []generation.Entry{{
				Path:   "/etc/systemd/system/kubelet.service",
				Kind:   generation.KindFile,
				Mode:   0o600,
				Digest: content.Digest,
				Size:   content.Size,
			}},
		}
		err := store.Write(m, map[string]config.Content{content.Digest: content})
		if err == nil && row.system != "" {
			err = store.Activate(row.system, m.Name())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Prune(2); err != nil {
		t.Fatal(err)
	}

	for _, version := range []string{"1.36.1", "1.36.2", "1.37.0", "1.37.1", "1.37.2", "1.37.3"} {
		files.Write(t, filepath.Join(n.Root, bundle.Directory, version, "bin/kubelet"), version)
	}
	if err := n.ownCluster().prune("1.37.2"); err != nil {
		t.Fatal(err)
	}
	have, err := bundle.NewStore(durable.New(n.root, nil)).Versions()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"1.36.1", "1.37.1", "1.37.2", "1.37.3"}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// clusterFiles returns the files of the node's cluster by their names.
func (n *testNode) clusterFiles(t *testing.T) map[string]string {
	t.Helper()
	dir := filepath.Join(n.Root, plane.StateDirectory)
	tree := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		tree[name] = string(text)
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return tree
}

// TestADiskIsMeasuredOnceOnly: a cluster goes on whatever the disk is like now.
func TestADiskIsMeasuredOnceOnly(t *testing.T) {
	n := unidentified(t)
	files.Write(t, filepath.Join(n.Root, source.RunPath),
		clusterMachine+"cluster: {init: {}}\n")
	n.reset = n.newReset()
	n.identify(t.Context())
	n.makeCluster(t)

	n.Fsync = func(context.Context, string) (time.Duration, error) {
		t.Error("the disk is measured again")
		return time.Hour, nil
	}
	n.identify(t.Context())
	if nameOf(n.status.OwnCluster) != "kubernetes" || n.status.Error != nil {
		t.Errorf("cluster %q, %v", nameOf(n.status.OwnCluster), n.status.Error)
	}
}

// withoutRoot returns a text without the temporary directory of the node.
func withoutRoot(n *testNode, text string) string {
	return strings.ReplaceAll(text, n.Root, "ROOT")
}

// nameOf returns the name of a cluster, "" if there is none.
func nameOf(c *status.OwnCluster) string {
	if c == nil {
		return ""
	}
	return c.Name
}

// TestADamagedRecord is shown, and the certificates of what runs are renewed all the
// same.
func TestADamagedRecord(t *testing.T) {
	upgrade := publishKubernetes(t, "1.36.2")
	n := clusterNode(t, upgrade, "")
	n.makeCluster(t)
	r := *n.first.record
	if err := n.planeStore().WriteApplied(r); err != nil {
		t.Fatal(err)
	}
	files.Write(t, filepath.Join(n.Root, plane.RecordFile), `{"apiVersion": "loam.dev/v1alpha1",`)

	n.controlPlane = nil
	n.startAs(t, upgrade, "")
	got := n.problem(t)
	if got == nil || got.Code != fault.DocumentInvalid || !strings.Contains(got.Document, "record.json") {
		t.Errorf("got %+v", got)
	}
	if n.controlPlane == nil || n.source == nil {
		t.Fatal("a record that is corrected would need another start")
	}
	if len(n.planeStore().Certificates(r)) == 0 {
		t.Error("there are no certificates")
	}
}
