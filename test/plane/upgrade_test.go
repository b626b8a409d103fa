package plane

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/judge"
)

// TestUpgradeFromTheEarlierMinorVersion starts a control plane of the minor version
// before with the flags of its record, and then the newest one with the same data.
// Between them, etcd alone is the newest one, as [plane.EtcdFirst] wants it. What a
// client has written is there.
func TestUpgradeFromTheEarlierMinorVersion(t *testing.T) {
	judge.Long(t, "TestFromAnEmptyDiskToFiveYearsLaterAndBack, with the newest version")
	t.Parallel()
	m := newCluster(t)
	kubernetes := slices.DeleteFunc(slices.Clone(programs), func(name string) bool {
		return name == "etcd"
	})

	m.change(t, earlierVersion)
	m.link(t, "etcd", "etcd"+earlierEtcdEnding)
	for _, name := range kubernetes {
		m.link(t, name, name+earlierEnding)
	}
	m.boot(t)
	m.checkEtcd(t)
	m.startControllers(t)
	m.checkVersion(t, earlierVersion)

	m.addNode(t)
	m.createDeployment(t)
	m.awaitPods(t, 2)
	m.checkSecrets(t)
	m.stop(t)

	// etcd alone comes first.
	m.checkTakes(t, version, "etcd", "")
	m.checkFirst(t, "before", false, true)
	m.node.Etcd = filepath.Join(m.dir, "next")
	if err := os.Mkdir(m.node.Etcd, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(cluster.Program(t, "etcd"), filepath.Join(m.node.Etcd, "etcd")); err != nil {
		t.Fatal(err)
	}
	m.boot(t)
	m.checkEtcd(t)
	m.checkVersion(t, earlierVersion)
	m.checkSecret(t)
	m.checkFirst(t, "on trial", true, true)
	m.checkFirst(t, "after its trial", false, false)
	m.stop(t)
	m.checkTakes(t, version, "etcd", "")
	m.checkTakes(t, earlierVersion, "etcd"+earlierEtcdEnding, "cannot read the data")
	m.checkNoWayBack(t)

	m.change(t, version)
	for _, name := range kubernetes {
		m.link(t, name, name)
	}
	m.boot(t)
	m.checkEtcd(t)
	m.startControllers(t)
	m.checkVersion(t, version)
	m.checkSecret(t)
	m.must(t, http.MethodPatch, "/apis/apps/v1/namespaces/default/deployments/web",
		`{"spec":{"replicas":3}}`)
	m.awaitPods(t, 3)
}

// checkTakes: of the record with a version of Kubernetes, and etcd in its bundle, the
// agent says that it cannot take over the data of what ran.
func (m *machine) checkTakes(t testing.TB, kubernetes, etcd, want string) {
	t.Helper()
	started, etcdVersion := m.started(t), versionOf(t, etcd)
	next := m.record
	next.Kubernetes = kubernetes
	err := plane.CheckEtcd("record.json", next.Text(), started, etcdVersion)
	if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
		t.Errorf("from %v to Kubernetes %s with etcd %s: %v", started, kubernetes, etcdVersion, err)
	}
}

// checkFirst: the newest etcd is changed before the other programs, or not any more.
func (m *machine) checkFirst(t testing.TB, when string, onTrial, want bool) {
	t.Helper()
	started := m.started(t)
	got := plane.EtcdFirst(
		started, versionOf(t, "etcd"+earlierEtcdEnding), versionOf(t, "etcd"), onTrial)
	whole := m.record
	whole.Kubernetes = version
	if got != want || started.Kubernetes != earlierVersion || started.Ran(whole, m.node.Etcd) {
		t.Errorf("%s, of %+v: %v", when, started, got)
	}
}

// started returns what has last served from the data of etcd.
func (m *machine) started(t testing.TB) plane.Started {
	t.Helper()
	root, err := os.OpenRoot(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	started, err := plane.NewStore(durable.New(root, nil)).Started()
	if err != nil || started == nil {
		t.Fatalf("what has started: %v, %v", started, err)
	}
	return *started
}

// versionOf returns the version of an etcd of package cluster.
func versionOf(t testing.TB, etcd string) string {
	t.Helper()
	printed, err := exec.Command(cluster.Program(t, etcd), "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	version, err := plane.ParseEtcdVersion(printed)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// checkNoWayBack: an older etcd refuses the data of a newer one, as
// docs/own-cluster.md says.
func (m *machine) checkNoWayBack(t testing.TB) {
	t.Helper()
	const unit = "etcd.service"
	m.node.Etcd = "" // The older etcd is beside the older programs.
	if err := m.try(t, plane.Render(m.record, m.node), unit); err == nil {
		t.Error("the older etcd takes the data")
	}
	log := logEnd(m.log(unit))
	if !strings.Contains(log, `version \"3.7.0\" is not supported`) {
		t.Errorf("the older etcd ended with:\n%s", log)
	}
	m.stop(t)
	m.link(t, "etcd", "etcd")
}

// change makes the record one of another version of Kubernetes.
func (m *machine) change(t testing.TB, version string) {
	t.Helper()
	m.record.Kubernetes = version
	text, err := json.Marshal(m.record)
	if err != nil {
		t.Fatal(err)
	}
	if m.record, err = plane.Decode("record.json", text); err != nil {
		t.Fatal(err)
	}
}

// checkVersion: the API server is of that version.
func (m *machine) checkVersion(t testing.TB, want string) {
	t.Helper()
	m.await(t, "the version", func(ctx context.Context) error {
		a, err := m.do(ctx, http.MethodGet, "/version", "")
		if err == nil && !strings.Contains(string(a.body), `"v`+want+`"`) {
			t.Errorf("the API server is %s, want v%s", a.body, want)
		}
		return err
	})
}

// TestTheKubeletKnowsItsFlags has the kubelet read its flags, and then only print
// its version: to run, it would change settings of this host's kernel.
func TestTheKubeletKnowsItsFlags(t *testing.T) {
	checkKubelet(t, "kubelet", version)
}

func TestTheEarlierKubeletKnowsItsFlags(t *testing.T) {
	judge.Long(t, "TestTheKubeletKnowsItsFlags, with the newest version")
	checkKubelet(t, "kubelet"+earlierEnding, earlierVersion)
}

func checkKubelet(t *testing.T, program, version string) {
	t.Helper()
	kubelet := cluster.Program(t, program)
	n := networks{"10.244.0.0/16", "10.96.0.0/16", "192.0.2.10"}
	for _, u := range plane.Render(recordOf(t, n, version), node(n)).Units {
		if u.Name != "kubelet.service" {
			continue
		}
		args := parse(*u.Content, "").command[1:]
		out, err := exec.Command(kubelet, append(args, "--version")...).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != "Kubernetes v"+version {
			t.Errorf("%s %q: %v\n%s", program, args, err, out)
		}
		if out, err := exec.Command(kubelet, "--version", "--unknown").CombinedOutput(); err == nil {
			t.Errorf("%s takes any flag: %s", program, out)
		}
		return
	}
	t.Error("there is no unit of the kubelet")
}
