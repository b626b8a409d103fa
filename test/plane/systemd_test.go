package plane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/container"
	"github.com/loam-os/loam/test/executor"
)

// keys are the keys of a node.
var keys = pki.Files{Dir: plane.KeysDirectory}

// systemdNode is a node with a control plane under a real systemd.
type systemdNode struct {
	*container.Container
	root     *os.Root
	executor *apply.Executor
	store    plane.Store
	record   plane.Record
	node     plane.Member
	now      time.Time
}

// TestTheEngineRunsTheControlPlane has the configuration engine apply what is
// rendered, without the kubelet and its container runtime, under the image's
// systemd.
func TestTheEngineRunsTheControlPlane(t *testing.T) {
	t.Parallel()
	for _, name := range append(slices.Clone(programs), "kube-proxy") {
		cluster.Program(t, name)
	}

	container.Run(t, func(t *testing.T, c *container.Container) {
		n := newSystemdNode(t, c)
		n.apply(t)
		n.checkReady(t)
		n.checkUsers(t)
		n.checkStarted(t)

		// The controllers make the account when they have started.
		n.get(t, "/api/v1/namespaces/default/serviceaccounts/default")

		// A change that the API server does not start with is reverted.
		n.applyBad(t)
		n.checkReady(t)
		before := n.processes(t)

		// A renewal of all certificates restarts etcd alone, which is no longer on trial.
		if err := n.store.KeepProven(); err != nil {
			t.Fatal(err)
		}
		n.now = n.now.AddDate(1, 0, 0)
		renewed, err := n.executor.Apply(t.Context(), n.request(t))
		if err != nil {
			t.Fatal(err)
		}
		n.checkReady(t)
		n.checkRestarted(t, before, "etcd.service")
		out := n.Command(t, "grep", "-qz", "^ETCD_BACKEND_BATCH_INTERVAL=10s$",
			"/proc/"+n.processes(t)["etcd.service"]+"/environ")
		if out != "" {
			t.Errorf("etcd does not gather changes of its database: %s", out)
		}

		// It stays although each program is killed once. All of them count.
		n.killEach(t)
		if v := n.conclude(t, health.Good); v.Unwell != nil {
			t.Errorf("not well: %v", v.Unwell)
		}
		if now := n.generation(t); now != renewed.Name() {
			t.Errorf("generation %s, want %s", now, renewed.Name())
		}

		// What hangs is restarted, and nothing else.
		n.stopEach(t)

		// kube-proxy takes its rules with it.
		n.addNode(t)
		n.setAddOns(t, plane.AddOnProxy)
		n.awaitRules(t)
		n.checkAlive(t)
		n.setAddOns(t)
		if rules := n.rules(t); rules != "" {
			t.Errorf("without kube-proxy there are %s", rules)
		}
		n.setAddOns(t, plane.AddOnProxy)

		// A reset finds the rules of a kube-proxy that it has stopped.
		n.awaitRules(t)
		n.Command(t, "systemctl", "stop", "kube-proxy.service")
		n.awaitRules(t)
		for range 2 {
			n.Command(t, plane.DeleteRules()...)
			if rules := n.rules(t); rules != "" {
				t.Errorf("after a reset there are %s", rules)
			}
		}

		// What is asked to end has not failed.
		for _, name := range slices.Backward(programs) {
			n.Command(t, "systemctl", "stop", name+".service")
		}
		failed := n.Command(t, "systemctl", "list-units", "--failed", "--plain", "--no-legend")
		if failed != "" {
			t.Errorf("failed: %q", failed)
		}
	})
}

// addNode registers the Node, as the kubelet would.
func (n *systemdNode) addNode(t *testing.T) {
	t.Helper()
	node := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": %q},
		"status": {"addresses": [{"type": "InternalIP", "address": %q}]}}`, nodeName, n.node.Address)
	out := n.Command(t, "curl", "--silent", "--show-error", "--fail", "--output", "/dev/null",
		"--cacert", keys.Authority(pki.CA), "--cert", keys.Leaf(pki.Kubelet),
		"--connect-to", "::127.0.0.1:", "--header", "Content-Type: application/json", "--data", node,
		fmt.Sprintf("https://%s:6443/api/v1/nodes", pki.ServerName))
	if out != "" {
		t.Fatalf("register the Node: %s", out)
	}
}

// setAddOns applies a record with these add-ons.
func (n *systemdNode) setAddOns(t *testing.T, addOns ...string) {
	t.Helper()
	n.record.AddOns = addOns
	n.apply(t)
}

// awaitRules waits until there are rules of kube-proxy.
func (n *systemdNode) awaitRules(t *testing.T) {
	t.Helper()
	poll(t, "the rules of kube-proxy", func(context.Context) error {
		if rules := n.rules(t); !strings.Contains(rules, "table ip kube-proxy") {
			return fmt.Errorf("there are %q", rules)
		}
		return nil
	})
}

// rules returns the tables of nftables.
func (n *systemdNode) rules(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(n.Command(t, "nft", "list", "tables"))
}

// checkStarted: the unit of etcd has kept what runs.
func (n *systemdNode) checkStarted(t *testing.T) {
	t.Helper()
	started, err := n.store.Started()
	if err != nil || started == nil || started.Kubernetes != n.record.Kubernetes ||
		!strings.HasPrefix(started.Etcd, "3.") {
		t.Errorf("what has started: %v, %v", started, err)
	}
}

func newSystemdNode(t *testing.T, c *container.Container) *systemdNode {
	t.Helper()
	networks := networks{"10.244.0.0/16", "10.96.0.0/16", "192.0.2.10"}
	n := &systemdNode{
		Container: c,
		root:      c.OpenRoot(t),
		record:    record(t, networks),
		node: plane.Member{
			Name:     nodeName,
			Address:  netip.MustParseAddr(networks.address),
			Programs: "/opt/kubernetes",
		},
		now: time.Now(),
	}
	n.record.AddOns = []string{}
	n.executor = executor.Node{
		Root:   n.root,
		Image:  c.OpenImage(t),
		Units:  c.Connect(t),
		Uptime: executor.Uptime,
	}.Start(t)
	n.executor = executor.With(n.executor, func(c *apply.Config) { c.Limit = hostTimeout })

	n.install(t)
	n.store = plane.NewStore(durable.New(n.root, nil))
	if _, err := n.store.Init(n.record, n.times()); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Command(t, "journalctl", "--no-pager", "-n", "80"))
		}
	})
	return n
}

// install copies the programs to the node.
func (n *systemdNode) install(t *testing.T) {
	t.Helper()
	if err := n.root.MkdirAll(n.node.Programs[1:], 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(slices.Clone(programs), "kube-proxy") {
		from, err := os.Open(cluster.Program(t, name))
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		to, err := n.root.OpenFile(path.Join(n.node.Programs[1:], name), os.O_CREATE|os.O_WRONLY, 0o755)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(to, from); err != nil {
			t.Fatal(err)
		}
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func (n *systemdNode) times() pki.Times { return pki.Times{Built: built, Now: n.now} }

// request is for what is rendered, without the kubelet and its container runtime.
func (n *systemdNode) request(t *testing.T) apply.Request {
	t.Helper()
	desired, _, err := n.store.Desired(n.record, n.node, n.times())
	if err != nil {
		t.Fatal(err)
	}
	desired.Units = slices.DeleteFunc(desired.Units, func(u config.Unit) bool {
		return u.Name == "kubelet.service" || u.Name == "containerd.service"
	})
	return apply.Request{Desired: desired, Source: "test"}
}

// apply applies what is rendered, which is well then.
func (n *systemdNode) apply(t *testing.T) {
	t.Helper()
	if _, err := n.executor.Apply(t.Context(), n.request(t)); err != nil {
		t.Fatal(err)
	}
	n.conclude(t, health.Good)
}

// applyBad applies what is rendered with a flag that the API server refuses.
func (n *systemdNode) applyBad(t *testing.T) {
	t.Helper()
	before := n.generation(t)
	request := n.request(t)
	for i, u := range request.Desired.Units {
		if u.Name == "kube-apiserver.service" {
			bad := strings.Replace(*u.Content, "--secure-port=6443", "--secure-port=x", 1)
			request.Desired.Units[i].Content = &bad
		}
	}
	if _, err := n.executor.Apply(t.Context(), request); err == nil {
		t.Error("the API server started")
	}
	n.conclude(t, health.Bad)
	if now := n.generation(t); now != before {
		t.Errorf("generation %s, want %s", now, before)
	}
}

// generation returns the name of the current generation.
func (n *systemdNode) generation(t *testing.T) string {
	t.Helper()
	current, _, err := n.executor.Current()
	if err != nil {
		t.Fatal(err)
	}
	return current.Name()
}

// killEach kills each program while a client writes and a change is on trial:
// systemd starts it again, no other program ends, and no write is lost.
func (n *systemdNode) killEach(t *testing.T) {
	t.Helper()
	admin := newClient(t, n.store.Keys, n.times(), joinNamespace(t, n.Network()), time.Now)
	t.Cleanup(admin.CloseIdleConnections)
	w := startWriter(t, admin)

	for _, name := range programs {
		unit := name + ".service"
		w.await(t, 20)
		before := n.processes(t)
		out := n.Command(t, "systemctl", "kill", "--kill-whom=main", "--signal=KILL", unit)
		if out != "" {
			t.Fatal(out)
		}

		poll(t, unit, func(ctx context.Context) error {
			verdict, err := n.executor.Judge(ctx)
			if verdict.Word == health.Bad {
				t.Fatalf("verdict %+v", verdict)
			}
			if err == nil && n.processes(t)[unit] == before[unit] {
				err = errors.New("it is not killed")
			}
			return errors.Join(err, n.answers(t, name))
		})
		n.checkRestarted(t, before, unit)
	}

	w.await(t, 20)
	w.check(t)
}

// stopEach stops all programs without an end, first one and then all others, while a
// client writes. The agent restarts them, and no write is lost.
func (n *systemdNode) stopEach(t *testing.T) {
	t.Helper()
	admin := newClient(t, n.store.Keys, n.times(), joinNamespace(t, n.Network()), time.Now)
	t.Cleanup(admin.CloseIdleConnections)
	w := startWriter(t, admin)
	w.await(t, 20)

	known := map[string]liveness.Health{}
	watch := n.watch(t)
	n.checkAlive(t)

	for _, hanging := range [][]string{
		{"etcd.service"},
		{"kube-apiserver.service", "kube-controller-manager.service", "kube-scheduler.service"},
	} {
		before := n.processes(t)
		for _, unit := range hanging {
			out := n.Command(t, "systemctl", "kill", "--kill-whom=main", "--signal=STOP", unit)
			if out != "" {
				t.Fatal(out)
			}
		}
		for range looksUntilRestart {
			watch.Look(t.Context(), known)
		}
		n.checkRestarted(t, before, hanging...)
		poll(t, "answers after a restart", func(ctx context.Context) error {
			watch.Look(ctx, known)
			for unit, health := range known {
				if health.Failures > 0 {
					return fmt.Errorf("%s does not answer: %+v", unit, health)
				}
			}
			return nil
		})
		n.checkRestarted(t, before, hanging...)
		w.await(t, 20)
	}
	w.check(t)
}

// checkAlive makes sure that each program answers the watch.
func (n *systemdNode) checkAlive(t *testing.T) {
	t.Helper()
	known := map[string]liveness.Health{}
	n.watch(t).Look(t.Context(), known)
	for unit, health := range known {
		if health != (liveness.Health{}) {
			t.Errorf("%s does not answer: %+v", unit, health)
		}
	}
}

// looksUntilRestart is how many times a program must not answer until it is restarted
// (package liveness).
const looksUntilRestart = 3

// watch is the agent's watch over the programs that the node runs.
func (n *systemdNode) watch(t *testing.T) liveness.Watch {
	t.Helper()
	inside := joinNamespace(t, n.Network())
	return liveness.Watch{
		Probes: local.Probes(inside.dial),
		Standings: func(_ context.Context, units []string) (map[string]liveness.Standing, error) {
			all := map[string]liveness.Standing{}
			for _, unit := range units {
				state := n.Command(t, "systemctl", "is-active", unit)
				if strings.TrimSpace(state) == "active" {
					all[unit] = liveness.Up
				}
			}
			return all, nil
		},
		Restart: func(ctx context.Context, units []string) error {
			var errs []error
			for _, unit := range units {
				errs = append(errs, n.executor.Config().Units.Restart(ctx, unit))
			}
			return errors.Join(errs...)
		},
		Report: func(e liveness.Event) { t.Log(e.Text()) },
	}
}

// answers asks a program whether it is well.
func (n *systemdNode) answers(t *testing.T, name string) error {
	t.Helper()
	url := map[string]string{
		"etcd":                    plane.EtcdHealthURL,
		"kube-apiserver":          plane.APIHealthURL,
		"kube-controller-manager": "https://127.0.0.1:10257/healthz",
		"kube-scheduler":          "https://127.0.0.1:10259/healthz",
	}[name]
	out := n.Command(t, "curl", "--silent", "--show-error", "--fail", "--output", "/dev/null",
		"--insecure", url)
	if out != "" {
		return errors.New(out)
	}
	return nil
}

// checkRestarted makes sure that these units have another process than before, and
// no other has.
func (n *systemdNode) checkRestarted(t *testing.T, before map[string]string, restarted ...string) {
	t.Helper()
	for unit, pid := range n.processes(t) {
		if (pid == before[unit]) == slices.Contains(restarted, unit) {
			t.Errorf("%s was process %s and is %s", unit, before[unit], pid)
		}
	}
}

// conclude waits for a verdict, does what it says, and returns it.
func (n *systemdNode) conclude(t *testing.T, want health.Word) health.Verdict {
	t.Helper()
	var verdict health.Verdict
	poll(t, "a verdict", func(ctx context.Context) error {
		var err error
		verdict, err = n.executor.Judge(ctx)
		if err == nil && verdict.Word == health.Wait {
			err = errors.New(verdict.Reason)
		}
		return err
	})
	if verdict.Word != want {
		t.Fatalf("verdict %+v, want %s", verdict, want)
	}
	if _, err := n.executor.Conclude(t.Context(), verdict); err != nil {
		t.Fatal(err)
	}
	return verdict
}

// checkReady waits until the API server is ready for everyone: its unit says so
// before it has made the roles of an empty cluster.
func (n *systemdNode) checkReady(t *testing.T) {
	t.Helper()
	n.get(t, "/readyz")
}

// get waits until the API server has that for the controller manager.
func (n *systemdNode) get(t *testing.T, path string) {
	t.Helper()
	poll(t, path, func(context.Context) error {
		out := n.Command(t, "curl", "--silent", "--show-error", "--fail", "--output", "/dev/null",
			"--cacert", keys.Authority(pki.CA),
			"--cert", keys.Leaf(pki.ControllerManager), "--connect-to", "::127.0.0.1:",
			fmt.Sprintf("https://%s:6443%s", pki.ServerName, path))
		if out != "" {
			return errors.New(out)
		}
		return nil
	})
}

// processes returns the main processes of the units.
func (n *systemdNode) processes(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range programs {
		unit := name + ".service"
		out := n.Command(t, "systemctl", "show", "--value", "--property=MainPID", unit)
		all[unit] = strings.TrimSpace(out)
	}
	return all
}

// checkUsers: etcd is not root, and has its data for itself; keys are root's.
func (n *systemdNode) checkUsers(t *testing.T) {
	t.Helper()
	owner := func(format, name string) string {
		return strings.TrimSpace(n.Command(t, "stat", "--format="+format, name))
	}
	user := owner("%u", "/proc/"+n.processes(t)["etcd.service"])
	data := owner("%u %a", "/var/lib/etcd/.")
	if user == "0" || data != user+" 700" {
		t.Errorf("etcd runs as %s, its data is of %s", user, data)
	}
	if key := owner("%u %a", keys.Leaf(pki.EtcdServer)); key != "0 600" {
		t.Errorf("the key of etcd is of %s", key)
	}
}
