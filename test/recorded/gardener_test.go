package recorded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	agent "github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/shoot"
	"github.com/loam-os/loam/test/units"
)

// machineNamespace is where Gardener has its machines.
const machineNamespace = "shoot--loam--edge"

const machineObjects = "/apis/machine.sapcloud.io/v1alpha1/namespaces/" +
	machineNamespace + "/machines"

// gardenerFixture returns a fixture in which Gardener's own authorizer judges
// each request of the node, and its own approver the requests for certificates.
func gardenerFixture(t *testing.T, machines int) *fixture {
	t.Helper()
	w := &fixture{TB: t, systemd: &units.Fake{}, token: "gardener-valitail"}
	w.Cluster = shoot.Run(t, shoot.Options{
		Cluster:          cluster.Options{Controllers: true},
		MachineNamespace: machineNamespace,
	})

	for i := range machines {
		w.must("POST", machineObjects, fmt.Sprintf(`{
			"apiVersion": "machine.sapcloud.io/v1alpha1",
			"kind": "Machine",
			"metadata": {"name": "machine-%d"},
			"spec": {
				"class": {"kind": "MachineClass", "name": "small"},
				"nodeTemplate": {"metadata": {"labels": {%q: %q}}}
			}
		}`, i+1, shoot.SecretNameLabel, secretName))
	}

	return w
}

// register makes the Node of a machine, as the kubelet and the machine
// controller do.
func (w *fixture) register(i int) {
	w.Helper()
	w.must("POST",
		nodes, fmt.Sprintf(
			`{"metadata": {"name": "node-%d", "labels": {"kubernetes.io/hostname": "host-%[1]d", %q: %q}}}`,
			i, shoot.SecretNameLabel, secretName,
		))
	w.must("PATCH", fmt.Sprintf("%s/machine-%d", machineObjects, i),
		fmt.Sprintf(`{"metadata": {"labels": {"node": "node-%d"}}}`, i))
}

// gardens is a configuration that carries the one of Gardener's node agent, as
// Gardener makes it.
func (w *fixture) gardens(text string) string {
	return strings.NewReplacer("https://another", w.URL(), "secretName: token",
		"secretName: "+w.token).Replace(carrying(text, "1.36.4", tokenFile))
}

// userData puts on an empty machine what Gardener's user data has.
func (w *fixture) userData(dir string) {
	w.Helper()

	for name, text := range map[string]string{
		"config-v1.149.0.yaml": "apiVersion: nodeagent.config.gardener.cloud/v1alpha1\n" +
			"kind: NodeAgentConfiguration\n" +
			"apiServer: {server: " + w.URL() +
			", caFile: /var/lib/gardener-node-agent/cluster-ca.crt}\n" +
			"controllers: {operatingSystemConfig: {secretName: " + secretName +
			", kubernetesVersion: 1.36.4}, token: {syncPeriod: 12h0m0s}}\n",
		"cluster-ca.crt":              w.CA(),
		"machine-name":                "machine-1",
		"credentials/bootstrap-token": w.BootstrapToken(w.TB),
	} {
		name = filepath.Join(dir, credentials.Directory, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, []byte(text), 0o600))
		if err != nil {
			w.Fatal(err)
		}
	}
}

// fromUserData returns how a machine with Gardener's user data reaches the
// cluster.
func (w *fixture) fromUserData(dir string) func() agent.Config {
	return func() agent.Config {
		c, err := agent.ReadNodeAgent(os.DirFS(dir), credentials.Directory)
		if err != nil {
			w.Fatal(err)
		}
		c.Hostname = "Host-1"
		return c
	}
}

// TestTurnsInARealGardener: its authorizer refuses each Lease with another name
// than the Secret's, which a serial rollout has left here.
func TestTurnsInARealGardener(t *testing.T) {
	t.Parallel()
	w := gardenerFixture(t, 1)
	w.must("POST", strings.TrimSuffix(leases, "/"),
		`{"metadata": {"name": "`+secretName+`"}, "spec": {"holderIdentity": ""}}`)
	w.put(w.token, map[string]string{"token": "first"})
	dir := t.TempDir()
	w.from = w.fromUserData(dir)
	w.adjust = func(n *Node) {
		n.Cluster.Env.Reload = func() (agent.Config, error) { return w.from(), nil }
	}

	w.policy = `{"maxUnavailable": 1}`
	w.userData(dir)
	w.says(w.gardens("one"))
	w.start(dir, "")
	w.file("etc/a", "one")
	w.register(1)
	w.must("PATCH", nodes+"/node-1/status",
		`{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}`)
	w.annotated(w.gardens("one"))

	w.says(w.gardens("two"))
	w.annotated(w.gardens("two"))
	w.await("the end of the turn", func() error {
		o, err := w.get(leases + secretName)
		if err != nil {
			return err
		}
		l, err := turns.ReadLedger(o.Metadata.Annotations)
		if err == nil && (l.Done != 1 || len(l.Holders) != 0) {
			err = fmt.Errorf("%+v", l)
		}
		return err
	})
}

// TestANodeOfARealGardener is one machine from its user data on.
func TestANodeOfARealGardener(t *testing.T) {
	t.Parallel()
	w := gardenerFixture(t, 1)
	d := &drill{}
	w.put(w.token, map[string]string{"token": "first"})
	systemd := w.needs(tokenFile)
	needs := w.adjust
	dir := t.TempDir()
	w.from = w.fromUserData(dir)
	w.adjust = func(n *Node) {
		needs(n)
		d.adjust(n)
		n.Cluster.Env.Reload = func() (agent.Config, error) { return w.from(), nil }
	}

	t.Run("the first boot, from user data", func(t *testing.T) {
		w.userData(dir)
		w.says(w.gardens("one"))
		w.start(dir, "")
		w.file("etc/a", "one")
		w.still(tokenFile, "first")

		if missed := systemd.missing(); len(missed) > 0 {
			t.Errorf("%v started without its token", missed)
		}

		w.register(1)
		w.annotated(w.gardens("one"))
		w.labelled("worker.gardener.cloud/kubernetes-version", "1.36.4")
		w.conditioned("True", "AllUnitsHealthy")
		w.await("the Lease", func() error { _, err := w.get(nodeLease); return err })
		w.tellsOf("OSCApplied", "Normal ", "")

		w.await("the end of the token", func() error {
			_, err := os.Stat(filepath.Join(dir, credentials.Directory,
				"credentials/bootstrap-token"))
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return errors.Join(errors.New("it is still there"), err)
		})
	})

	t.Run("a change, with a Secret that it refers to", func(t *testing.T) {
		w.put("ca", map[string]string{"bundle.crt": "A"})
		w.becomes(w.gardens("two") + referring)
		w.still("etc/ca", "A")
		w.overtake()
	})

	t.Run("a token that is rotated", func(*testing.T) { w.poke() })
	t.Run("units that are to be restarted", func(*testing.T) {
		w.annotate(restarted, "kubelet")
		w.carries(restarted, "")
	})

	t.Run("a document that is wrong", func(*testing.T) {
		w.says(w.gardens("three") + "  - path: etc/b\n    content: {inline: {data: x}}\n")
		w.tellsOf("OSCInvalid", "Warning Secret kube-system/gardener-node-agent-pool:",
			"; hint: begin it with /")
		w.conditioned("False", "OSCInvalid")
		w.becomes(w.gardens("three"))
		w.conditioned("True", "AllUnitsHealthy")
	})

	t.Run("static pods", func(*testing.T) {
		static := w.gardens("four") + "  - path: /etc/kubernetes/manifests/etcd.yaml\n" +
			"    content:\n      inline:\n        data: |\n" +
			"          {apiVersion: v1, kind: Pod, metadata: {name: etcd, annotations: " +
			"{gardener.cloud/config.mirror: h1}}}\n"

		w.says(static)
		w.waitsFor("static pod default/etcd is missing")
		w.must("POST", pods, `{"metadata": {"name": "etcd-node-1", "annotations": {"gardener.cloud/config.mirror": "h1"}},
			"spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]}}`)
		w.must("PATCH", pods+"/etcd-node-1/status",
			`{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`)
		w.annotated(static)
	})

	t.Run("an update in place", func(t *testing.T) {
		inPlace := func(text, kubelet string) string {
			_, more, _ := strings.Cut(updatable(text, kubelet, "1.0.0", spring), osc(text))
			return w.gardens(text) + more
		}

		w.becomes(inPlace("five", "1.35.0"))
		w.recorded()
		w.must("POST", pods,
			`{"metadata": {"name": "left"}, "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]}}`)
		w.says(inPlace("six", "1.36.0"))
		w.waitsFor("update of kubelet's version waits for the Node to be drained")
		w.drained()
		w.labelled(updateResult, "successful")
		w.annotated(inPlace("six", "1.36.0"))

		if pod, err := w.get(pods + "/left"); err == nil && pod.Metadata.DeletionTimestamp == "" {
			t.Error("a pod that saw the old node is left")
		}
	})

	t.Run("a certificate that is renewed", func(*testing.T) {
		w.stop()
		name := filepath.Join(dir, credentialsDir, "kubeconfig")
		before, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}

		w.ahead.Store(int64(27 * 24 * time.Hour))
		w.startAgain()

		w.await("a new certificate", func() error {
			after, err := os.ReadFile(name)
			if err == nil && string(after) == string(before) {
				err = errors.New("the same as before")
			}
			return err
		})

		w.ahead.Store(0)
		w.becomes(w.gardens("seven"))
	})

	t.Run("a Node that is deleted, and born again", func(*testing.T) {
		w.must("DELETE", nodes+"/node-1", "")
		w.overtaken("the Node is gone")
		w.register(1)
		w.annotated(w.gardens("seven"))
		w.labelled("worker.gardener.cloud/kubernetes-version", "1.36.4")
		w.conditioned("True", "AllUnitsHealthy")
		uid := w.must("GET", nodes+"/node-1", "")["metadata"].(map[string]any)["uid"].(string)

		w.await("the Lease", func() error {
			text, err := w.Do("GET", nodeLease, "")
			if err == nil && !strings.Contains(string(text), uid) {
				err = fmt.Errorf("it is not of Node %s: %s", uid, text)
			}
			return err
		})

		w.becomes(w.gardens("eight"))
	})

	t.Run("nothing is refused in the end", func(t *testing.T) {
		w.poke()
		w.await("the status", func() error {
			if l := w.node.Cluster.Link(); !l.Connected || l.Problem != "" {
				return fmt.Errorf("%+v", l)
			}
			return nil
		})
	})
}

// overtaken waits until the node knows that its Node is gone.
func (w *fixture) overtaken(what string) {
	w.Helper()
	w.await(what, func() error {
		if name := w.node.Cluster.Link().Node; name != "" {
			return errors.New(name)
		}
		return nil
	})
}

// turned is a systemd whose units are restarted in its host's turn only.
type turned struct {
	*units.Fake
	w    *fixture
	host string

	mu    sync.Mutex
	turns []string
}

func (i *turned) Restart(ctx context.Context, name string) error {
	l, err := i.w.get(leases + secretName)
	if err != nil {
		return err
	}

	i.mu.Lock()
	i.turns = append(i.turns, l.Spec.HolderIdentity)
	i.mu.Unlock()

	return i.Fake.Restart(ctx, name)
}

// TestNodesOfARealGardenerTakeTurns is a pool of three, from the first boot on.
func TestNodesOfARealGardenerTakeTurns(t *testing.T) {
	t.Parallel()
	const size = 3
	w := gardenerFixture(t, size)
	w.serial = true
	w.says(osc("one"))
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})

	var all []*Node
	var systemds []*turned
	for i := range size {
		name := fmt.Sprint(i + 1)
		c := agent.Config{
			Server:     w.URL(),
			CA:         []byte(w.CA()),
			SecretName: secretName,
			Machine:    "machine-" + name,
			Hostname:   "host-" + name,
		}

		systemd := &turned{Fake: &units.Fake{}, w: w, host: "host-" + name}
		n, err := New(t.TempDir(), c, w.BootstrapToken(t), systemd, 0, logger())
		if err != nil {
			t.Fatal(err)
		}

		all = append(all, n)
		systemds = append(systemds, systemd)

		group.Go(func() {
			if err := errors.Join(n.Run(ctx), n.Close()); err != nil {
				t.Error(err)
			}
		})
	}

	runs := func(text string) {
		t.Helper()
		for i := range size {
			w.await("the Node's checksum", func() error {
				n, err := w.get(fmt.Sprintf("%s/node-%d", nodes, i+1))
				if got := n.Metadata.Annotations[applied]; err == nil && got != sum(osc(text)) {
					err = fmt.Errorf("node-%d has %q, and waits for %q",
						i+1, got, all[i].Cluster.Link().Waits)
				}
				return err
			})
		}
	}

	for i, n := range all {
		w.await("the first configuration", func() error {
			_, err := os.ReadFile(filepath.Join(n.Dir, "var/lib/loam/os/1.0.0/current/root/etc/a"))
			return err
		})
		w.register(i + 1)
	}

	runs("one")
	for _, text := range []string{"two", "three"} {
		w.says(osc(text))
		runs(text)
		w.givenOn()
	}

	for i, systemd := range systemds {
		systemd.mu.Lock()
		if want := slices.Repeat([]string{systemd.host}, 2); !slices.Equal(systemd.turns, want) {
			t.Errorf("node-%d restarted units in the turns of %v", i+1, systemd.turns)
		}
		systemd.mu.Unlock()
	}
}
