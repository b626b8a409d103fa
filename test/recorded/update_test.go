package recorded

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loam-os/loam/test/cluster"
)

const (
	updateResult = "node.machine.sapcloud.io/update-result"
	updateReason = "node.machine.sapcloud.io/update-failed-reason"
	triedVersion = "node-agent.gardener.cloud/updating-operating-system-version"
	pods         = "/api/v1/namespaces/default/pods"
)

// updatable is a configuration that speaks of updates in place.
func updatable(text, kubelet, system, rotated string) string {
	return osc(text) + "  - path: /var/lib/kubelet/config/kubelet\n" +
		"    content: {inline: {data: 'kind: KubeletConfiguration'}}\n" +
		"  inPlaceUpdates:\n    operatingSystemVersion: " + system + "\n" +
		"    kubelet: " + kubelet + "\n" +
		"    credentialsRotation:\n" +
		"      certificateAuthorities: {lastInitiationTime: " + rotated + "}\n"
}

const (
	spring = "2026-04-01T00:00:00Z"
	summer = "2026-08-01T00:00:00Z"
)

// drill is a node whose kubelet and system are the test's.
type drill struct {
	mu sync.Mutex

	// ill is what is wrong with the kubelet, upgrades are the requested
	// upgrades.
	ill      error
	upgrades []string

	// boots counts the node's starts, which the test may take back: it is the
	// agent alone that starts again then.
	boots int

	// asked tells that the kubelet is asked how it is, which it says once well
	// is closed; nil for at once.
	asked, well chan struct{}
}

func (d *drill) adjust(n *Node) {
	d.boots++
	n.Cluster.Env.BootID = fmt.Sprint("boot ", d.boots)
	n.Cluster.Env.Kubelet = d.kubelet
	n.Cluster.Env.Upgrade = func(_ context.Context, version string) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.upgrades = append(d.upgrades, version)
		return nil
	}
}

func (d *drill) kubelet(ctx context.Context) error {
	d.mu.Lock()
	ill := d.ill
	asked := d.asked
	well := d.well
	d.mu.Unlock()

	if well == nil {
		return ill
	}

	asked <- struct{}{}
	select {
	case <-well:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hold has the kubelet start until it is well.
func (d *drill) hold() (asked <-chan struct{}, well func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = make(chan struct{}, 16)
	d.well = make(chan struct{})
	wait := d.well

	return d.asked, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.well = nil
		close(wait)
	}
}

// upgraded waits until those upgrades were asked for.
func (w *fixture) upgraded(d *drill, versions string) {
	w.Helper()
	w.await("the upgrade", func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if strings.Join(d.upgrades, " ") != versions {
			return fmt.Errorf("upgrades %v", d.upgrades)
		}
		return nil
	})
}

// updatableFixture returns a fixture whose node runs text, and whose kubelet has
// joined.
func updatableFixture(t *testing.T, text string) (*fixture, *drill) {
	w := newFixture(t, cluster.Options{Controllers: true})
	d := &drill{}
	w.adjust = d.adjust
	w.join(text)
	w.recorded()
	w.write(kubeletCertificate, w.kubelet("node-1"))

	return w, d
}

// updateRecord is what the node remembers of updates in place.
const updateRecord = "var/lib/loam/inplace.json"

// recorded waits until the node can tell what an update changes.
func (w *fixture) recorded() {
	w.Helper()
	w.await("the record of updates", func() error {
		_, err := os.Stat(filepath.Join(w.node.Dir, updateRecord))
		return err
	})
}

func TestAnUpdateInPlaceWaitsUntilTheNodeIsDrained(t *testing.T) {
	t.Parallel()
	w, d := updatableFixture(t, updatable("one", "1.35.0", "1.0.0", spring))
	d.ill = errors.New("starting")
	w.write("var/lib/kubelet/kubeconfig-real", "kind: Config")
	certificate := w.kubelet("node-1")
	w.write(kubeletCertificate, certificate)
	w.must("POST", pods,
		`{"metadata": {"name": "left"}, "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]}}`)

	t.Run("a patch of kubelet needs no drained node", func(t *testing.T) {
		w.becomes(updatable("patch", "1.35.9", "1.0.0", spring))
	})

	next := updatable("two", "1.36.0", "1.0.0", summer)
	w.says(next)
	w.waitsFor("update of kubelet's version, certificate authorities waits for the Node " +
		"to be drained")
	w.still("etc/a", "patch")

	w.systemd.Calls()
	w.drained()
	w.file("etc/a", "two")
	w.poke() // It has looked since, and kubelet is not well.

	if n, err := w.get(nodes + "/node-1"); err != nil ||
		n.Metadata.Annotations[applied] == sum(next) {
		t.Errorf("the Node says it is done before kubelet is well: %v", err)
	}

	d.mu.Lock()
	d.ill = nil
	d.mu.Unlock()

	w.await("the request of the agent", func() error {
		if w.asked() != 2 {
			return errors.New("no second request")
		}
		return nil
	})

	asked, well := d.hold()
	w.approve()
	<-asked
	well()
	asked, well = d.hold()
	<-asked // It was well, but had no certificate.

	text, err := os.ReadFile(filepath.Join(w.node.Dir, "var/lib/kubelet/kubeconfig-bootstrap"))
	encoded := base64.StdEncoding.EncodeToString([]byte(certificate))
	if err != nil || !strings.Contains(string(text), encoded) {
		t.Errorf("the kubelet joins with %s, %v", text, err)
	}

	w.write(kubeletCertificate, w.kubelet("node-1"))
	well()
	w.labelled(updateResult, "successful")
	w.annotated(next)

	calls := strings.Join(w.systemd.Calls(), ", ")
	if !strings.Contains(calls, "restart kubelet.service") {
		t.Errorf("jobs %q", calls)
	}

	if n := w.asked(); n != 2 {
		t.Errorf("%d certificates were asked for, want the first and one for the new authority", n)
	}

	pod, err := w.get(pods + "/left")
	if err == nil && pod.Metadata.DeletionTimestamp == "" {
		t.Error("a pod that saw the old node is left")
	}

	t.Run(
		"and once it is done the next waits again, before anybody has read that",
		func(t *testing.T) {
			w.says(updatable("three", "1.37.0", "1.0.0", summer))
			w.waitsFor("update of kubelet's version waits for the Node to be drained again, " +
				"without its label " + updateResult)
			w.still("etc/a", "two")
		},
	)

	t.Run("after a restart of the agent, too", func(t *testing.T) {
		w.stop()
		w.startAgain()
		w.waitsFor("update of kubelet's version waits")
		w.still("etc/a", "two")
	})

	t.Run("and when that is taken away", func(t *testing.T) {
		w.givenBack()
		w.waitsFor("update of kubelet's version waits for the Node to be drained")
		w.poke()
		w.still("etc/a", "two")
	})

	t.Run("a document that cannot be applied is a failed update", func(t *testing.T) {
		w.says(strings.Replace(updatable("four", "1.37.0", "2.0.0", summer), "path: /etc/a",
			"path: etc/a", 1))
		w.waitsFor("update of the operating system, kubelet's version waits") // It is seen.
		w.drained()
		w.labelled(updateResult, "failed")
		w.says(updatable("five", "1.37.0", "1.0.0", summer)) // It is tried without another drain.
		w.labelled(updateResult, "successful")
		w.carries(updateReason, "")
	})
}

// TestAnUpdateInPlaceIsCompletedWithANewerConfiguration: the next one may come when all is
// done that both ask for, but nobody was told. The Node would stay without pods.
func TestAnUpdateInPlaceIsCompletedWithANewerConfiguration(t *testing.T) {
	t.Parallel()
	w, d := updatableFixture(t, updatable("one", "1.35.0", "1.0.0", spring))
	asked, well := d.hold()
	w.says(updatable("two", "1.36.0", "1.0.0", spring))
	w.drained()
	<-asked

	w.says(strings.Replace(updatable("three", "1.36.0", "1.0.0", spring), "path: /etc/a",
		"path: etc/a", 1))
	w.conditioned("False", "OSCInvalid")
	well()
	w.labelled(updateResult, "failed")

	w.says(updatable("four", "1.36.0", "1.0.0", spring))
	w.labelled(updateResult, "successful")
	w.carries(updateReason, "")
	w.file("etc/a", "four")

	t.Run("and goes back, too", func(t *testing.T) {
		w.givenBack()
		_, well := d.hold()
		w.says(updatable("five", "1.37.0", "1.0.0", spring))
		w.waitsFor("update of kubelet's version waits for the Node to be drained")
		w.drained()
		w.file("etc/a", "five")
		w.says(updatable("six", "1.36.0", "1.0.0", spring))
		w.file("etc/a", "six")
		well()
		w.labelled(updateResult, "successful")
	})
}

func TestASystemThatCameBackIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	w, d := updatableFixture(t, updatable("one", "1.35.0", "1.0.0", spring))
	next := updatable("two", "1.35.0", "2.0.0", spring)
	w.says(next)
	w.waitsFor("update of the operating system waits")
	w.drained()
	w.carries(triedVersion, "2.0.0")
	w.upgraded(d, "2.0.0")

	t.Run("unless the agent was stopped before it had begun", func(*testing.T) {
		w.stop()
		d.boots--
		w.startAgain()
		w.upgraded(d, "2.0.0 2.0.0")
		w.carries(triedVersion, "2.0.0")
		w.carries(updateReason, "")
	})

	w.stop() // It starts version 2.0.0, and falls back.
	w.startAgain()
	w.carries(updateReason, "the node came back with version 1.0.0, not 2.0.0")
	w.labelled(updateResult, "failed")
	w.upgraded(d, "2.0.0 2.0.0")
	w.must("PATCH", nodes+"/node-1", `{"metadata": {"annotations": {"`+triedVersion+`": null}}}`)
	w.carries(triedVersion, "2.0.0") // An operator has asked for it.
}

func TestANodeWaitsForItsStaticPods(t *testing.T) {
	t.Parallel()
	w := joinedFixture(t, osc("one"))
	w.write(kubeletCertificate, w.kubelet("node-1"))
	static := osc("two") + "  - path: /etc/kubernetes/manifests/etcd.yaml\n    content:\n" +
		"      inline:\n        data: |\n" +
		"          {apiVersion: v1, kind: Pod, metadata: {name: etcd, annotations: " +
		"{gardener.cloud/config.mirror: h1}}}\n"

	w.says(static)
	w.waitsFor("static pod default/etcd is missing")
	w.must("POST", pods, `{"metadata": {"name": "etcd-node-1", "annotations": {"gardener.cloud/config.mirror": "h0"}},
		"spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]}}`)
	w.waitsFor("static pod default/etcd still runs an older manifest")
	w.must("PATCH", pods+"/etcd-node-1",
		`{"metadata": {"annotations": {"gardener.cloud/config.mirror": "h1"}}}`)
	w.waitsFor("static pod default/etcd is not ready")
	w.must("PATCH", pods+"/etcd-node-1/status",
		`{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`)
	w.annotated(static)
	w.waitsFor("")

	t.Run("and for no others", func(t *testing.T) {
		w.write("etc/kubernetes/manifests/foreign.yaml", "{kind: Pod, metadata: {name: foreign}}")
		w.becomes(osc("three"))
		w.becomes(strings.Replace(static, "data: two", "data: four", 1))
	})
}

func TestARotationThatIsNotSpokenOfAnyMoreWaitsForNoDrain(t *testing.T) {
	t.Parallel()
	text := updatable("one", "1.35.0", "1.0.0", spring)
	w, _ := updatableFixture(t, text)
	w.says(updatable("two", "1.35.0", "1.0.0", summer))
	w.waitsFor("update of certificate authorities waits for the Node to be drained")
	before, _, _ := strings.Cut(updatable("three", "1.35.0", "1.0.0", spring),
		"    credentialsRotation:")
	w.becomes(before)
}

func TestALostAddressIsPutBack(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	refused := &refusal{}
	w.interpose().answers = refused.answer
	w.adjust = func(n *Node) {
		n.Cluster.Env.Part = func() float64 { return 0.5 }
		n.Cluster.Env.Addresses = func() ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("10.0.0.5")}, nil
		}
	}

	w.join(osc("one"))
	addresses := func(list string) {
		w.must("PATCH", nodes+"/node-1/status", `{"status": {"addresses": [`+list+`]}}`)
	}

	are := func(want string) {
		w.await("the Node's addresses", func() error {
			n, err := w.get(nodes + "/node-1")
			if got := fmt.Sprint(n.Status.Addresses); err == nil && got != want {
				err = errors.New(got)
			}
			return err
		})
	}

	const name, internal = `{"type": "Hostname", "address": "host-1"}`, `{"type": "InternalIP", "address": "10.0.0.5"}`
	addresses(internal + ", " + name)
	w.poke()
	addresses(name)
	are("[{InternalIP 10.0.0.5} {Hostname host-1}]")

	for range 2 { // Each loss is one by itself.
		w.systemd.Calls()
		end := refused.begin(422, "Invalid", func(r *http.Request) bool {
			return r.Method == "PATCH" && strings.HasSuffix(r.URL.Path, "/status") && isKnown(r)
		})

		addresses(name)
		w.came(refused, 2*time.Second)

		if jobs := w.systemd.Calls(); !slices.Equal(jobs, []string{"restart kubelet.service"}) {
			t.Errorf("when the API server refuses: %q", jobs)
		}

		end()
		are("[{InternalIP 10.0.0.5} {Hostname host-1}]")
		w.poke()
	}
}

// drained marks the Node as ready for an update.
func (w *fixture) drained() {
	w.Helper()
	w.must("PATCH", nodes+"/node-1/status",
		`{"status": {"conditions": [{"type": "InPlaceUpdate", "status": "True", "reason": "ReadyForUpdate"}]}}`)
}

// givenBack takes note of an update that succeeded, and gives the Node back to
// pods, as machine-controller-manager does.
func (w *fixture) givenBack() {
	w.Helper()
	w.must("PATCH", nodes+"/node-1/status",
		`{"status": {"conditions": [{"type": "InPlaceUpdate", "status": "True", "reason": "UpdateSuccessful"}]}}`)
	w.must("PATCH", nodes+"/node-1", `{"metadata": {"labels": {"`+updateResult+`": null}}}`)
	w.nodeSeen()
}

// labelled waits until the Node's label has the value.
func (w *fixture) labelled(key, value string) {
	w.Helper()
	w.await("the Node's label "+key, func() error {
		n, err := w.get(nodes + "/node-1")
		if got := n.Metadata.Labels[key]; err == nil && got != value {
			err = fmt.Errorf("%q, reason %q", got, n.Metadata.Annotations[updateReason])
		}
		return err
	})
}

// waitsFor waits until the node says that it waits for text.
func (w *fixture) waitsFor(text string) {
	w.Helper()
	w.await("what the node waits for", func() error {
		got := w.node.Cluster.Link().Waits
		if !strings.HasPrefix(got, text) || (text == "" && got != "") {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
}
