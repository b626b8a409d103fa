package plane

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/container"
	"github.com/loam-os/loam/test/executor"
	"github.com/loam-os/loam/test/judge"
)

// TestTheEngineUpgradesEtcdFirst has the engine apply what a node wants when
// Kubernetes and etcd move to the next minor version. An API server that does not
// come up leads back to the earlier one, with the newer etcd.
func TestTheEngineUpgradesEtcdFirst(t *testing.T) {
	judge.Long(t, "TestEtcdIsUpgradedAloneFirst of agent/plane/local")
	t.Parallel()
	for _, name := range []string{"etcd", "kube-apiserver"} {
		cluster.Program(t, name)
	}
	cluster.Program(t, "etcd"+earlierEtcdEnding)
	cluster.Program(t, "kube-apiserver"+earlierEnding)

	container.Run(t, func(t *testing.T, c *container.Container) {
		n := newSteps(t, c)
		n.applies(t, n.wants(t), health.Good)
		n.checkRuns(t, earlierVersion, "3.6.")
		n.wants(t) // It keeps what has proved itself.

		n.record.Kubernetes = version
		n.record.Audit.Policy = plane.AuditMetadata
		if err := n.store.WriteRecord(n.record); err != nil {
			t.Fatal(err)
		}
		first := n.wants(t)
		if _, err := n.executor.Apply(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		n.checkRuns(t, earlierVersion, "3.7.")
		if again := n.wants(t); again.Digest != first.Digest {
			t.Error("on trial, the node wants something else")
		}
		n.conclude(t, health.Good)
		stays := n.generation(t)

		second := n.wants(t)
		bad := second
		bad.Desired.Units = slices.Clone(second.Desired.Units)
		for i, u := range bad.Desired.Units {
			if u.Name == "kube-apiserver.service" {
				text := strings.Replace(*u.Content, "--secure-port=6443", "--secure-port=x", 1)
				bad.Desired.Units[i].Content = &text
			}
		}
		bad.Digest = bad.Desired.Digest()
		if _, err := n.executor.Apply(t.Context(), bad); err == nil {
			t.Error("the API server started")
		}
		n.conclude(t, health.Bad)
		if now := n.generation(t); now != stays {
			t.Errorf("generation %s, want %s", now, stays)
		}
		n.checkRuns(t, earlierVersion, "3.7.")

		if again := n.wants(t); again.Digest != second.Digest {
			t.Error("after the revert, the node wants something else")
		}
		n.applies(t, second, health.Good)
		n.checkRuns(t, version, "3.7.")
		n.wants(t)
		applied, err := n.store.Applied()
		if err != nil || applied == nil || string(applied.Text()) != string(n.record.Text()) {
			t.Errorf("the record that runs: %+v, %v", applied, err)
		}
	})
}

// steps is a node whose source is its record.
type steps struct {
	systemdNode
	source *local.Follower
}

func newSteps(t *testing.T, c *container.Container) *steps {
	t.Helper()
	image := c.OpenImage(t)
	n := &steps{systemdNode: systemdNode{
		Container: c,
		root:      c.OpenRoot(t),
		record:    recordOf(t, networks{"10.244.0.0/16", "10.96.0.0/16", "192.0.2.10"}, earlierVersion),
		now:       time.Now(),
	}}
	n.record.AddOns = []string{}
	n.executor = executor.Node{
		Root:   n.root,
		Image:  image,
		Units:  c.Connect(t),
		Uptime: executor.Uptime,
	}.Start(t)
	n.executor = executor.With(n.executor, func(c *apply.Config) { c.Limit = hostTimeout })

	n.installBundle(t, earlierVersion, earlierEnding, earlierEtcdEnding)
	n.installBundle(t, version, "", "")
	n.store = plane.NewStore(durable.New(n.root, nil))
	if _, err := n.store.Init(n.record, n.times()); err != nil {
		t.Fatal(err)
	}
	n.source = local.New(n.record, local.Config{
		Store: n.store,
		Root:  n.root.Name(),
		Image: image,
		Name:  nodeName,
		Addresses: func() ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("192.0.2.10")}, nil
		},
		Current: n.current,
		Uptime:  executor.Uptime,
		Built:   built,
		Now:     func() time.Time { return n.now },
		Log:     zap.NewNop(),
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Command(t, "journalctl", "--no-pager", "-n", "80"))
		}
	})
	return n
}

// current returns what runs, as the agent does.
func (n *steps) current() (digest string, trying bool, err error) {
	current, _, err := n.executor.Current()
	if err != nil {
		return "", false, err
	}
	_, trying, err = n.executor.Pending()
	return current.Digest, trying, err
}

// installBundle makes a bundle on the node. What the test does not run is empty.
func (n *steps) installBundle(t *testing.T, version, ending, etcdEnding string) {
	t.Helper()
	dir := path.Join(bundle.Directory[1:], version)
	d := bundle.Description{Format: bundle.Format, Version: version, Arch: runtime.GOARCH}
	for _, name := range bundle.Programs {
		from := os.DevNull
		switch name {
		case "etcd":
			from = cluster.Program(t, name+etcdEnding)
		case "kube-apiserver":
			from = cluster.Program(t, name+ending)
		}
		size := n.copy(t, from, path.Join(dir, "bin", name))
		d.Files = append(d.Files, bundle.File{Name: "bin/" + name, Size: size})
	}

	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"bundle.json": string(text),
		"images/index.json": `{"manifests": [
			{"annotations": {"org.opencontainers.image.ref.name": "registry.k8s.io/pause:3.10.1"}}]}`,
	} {
		file := path.Join(dir, name)
		if err := n.root.MkdirAll(path.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := n.root.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// copy copies a program to the node, and returns its size.
func (n *steps) copy(t *testing.T, from, to string) int64 {
	t.Helper()
	if err := n.root.MkdirAll(path.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := n.root.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	size, err := io.Copy(out, in)
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return size
}

// wants returns what the node wants now, of which the engine gets only etcd and the
// API server.
func (n *steps) wants(t *testing.T) apply.Request {
	t.Helper()
	doc, err := n.source.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	desired, err := n.source.Decode(t.Context(), doc)
	if err != nil {
		t.Fatal(err)
	}

	r := apply.Request{Desired: desired, Digest: desired.Digest(), Source: "test"}
	r.Desired.Units = slices.DeleteFunc(slices.Clone(desired.Units), func(u config.Unit) bool {
		return u.Name != "etcd.service" && u.Name != "kube-apiserver.service"
	})
	return r
}

// applies has the engine apply what the node wants.
func (n *steps) applies(t *testing.T, r apply.Request, want health.Word) {
	t.Helper()
	if _, err := n.executor.Apply(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	n.conclude(t, want)
}

// checkRuns: the API server is of that version, and etcd of that minor version has
// served.
func (n *steps) checkRuns(t *testing.T, kubernetes, etcd string) {
	t.Helper()
	n.checkReady(t)
	out := n.Command(t, "curl", "--silent", "--show-error", "--fail",
		"--cacert", keys.Authority(pki.CA), "--cert", keys.Leaf(pki.ControllerManager),
		"--connect-to", "::127.0.0.1:", fmt.Sprintf("https://%s:6443/version", pki.ServerName))
	if !strings.Contains(out, `"v`+kubernetes+`"`) {
		t.Errorf("the API server is %s, want v%s", out, kubernetes)
	}

	program := strings.TrimSpace(n.Command(t, "readlink", "/proc/"+
		strings.TrimSpace(n.Command(t, "systemctl", "show", "--value", "--property=MainPID",
			"etcd.service"))+"/exe"))
	started, err := n.store.Started()
	if err != nil || started == nil || started.Kubernetes != kubernetes ||
		!strings.HasPrefix(started.Etcd, etcd) || filepath.Dir(program) != started.Programs {
		t.Errorf("etcd is %s, and has started as %+v, %v", program, started, err)
	}
}
