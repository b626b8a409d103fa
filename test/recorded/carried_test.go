package recorded

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/units"
)

// carriedToken is where the configurations of these tests have a token synced.
const carriedToken = "var/lib/carried/auth-token"

// carrying is a configuration that carries the one of Gardener's node agent:
// the version of Kubernetes, and the sync of a token.
func carrying(text, kubernetes, token string) string {
	return osc(text) + "  - path: /var/lib/gardener-node-agent/config-v1.149.0.yaml\n" +
		"    content:\n      inline:\n        data: |\n" +
		"          apiVersion: nodeagent.config.gardener.cloud/v1alpha1\n" +
		"          kind: NodeAgentConfiguration\n" +
		"          apiServer: {server: https://another, caFile: " +
		"/var/lib/gardener-node-agent/cluster-ca.crt}\n" +
		"          controllers:\n" +
		"            operatingSystemConfig: {secretName: " + secretName + ", kubernetesVersion: " +
		kubernetes + "}\n" +
		"            token: {syncConfigs: [{secretName: token, path: /" + token +
		"}], syncPeriod: 12h0m0s}\n"
}

// needy is a systemd whose units need a file to start.
type needy struct {
	*units.Fake
	file string

	mu     sync.Mutex
	missed []string
}

func (n *needy) Start(ctx context.Context, name string) error {
	n.look(name)
	return n.Fake.Start(ctx, name)
}

func (n *needy) Restart(ctx context.Context, name string) error {
	n.look(name)
	return n.Fake.Restart(ctx, name)
}

func (n *needy) look(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if text, err := os.ReadFile(n.file); err != nil || len(text) == 0 {
		n.missed = append(n.missed, name)
	}
}

// missing are the units that were started without the file since the last time.
func (n *needy) missing() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	missed := n.missed
	n.missed = nil
	return missed
}

// needs has the units of the node need a file of it.
func (w *fixture) needs(name string) *needy {
	systemd := &needy{Fake: w.systemd}
	w.adjust = func(n *Node) {
		systemd.file = filepath.Join(n.Dir, name)
		n.asks(systemd)
	}
	return systemd
}

// TestATokenIsThereBeforeTheUnitThatNeedsIt: Gardener's log shippers do not
// start without the token that the same configuration has synced.
func TestATokenIsThereBeforeTheUnitThatNeedsIt(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	w.put("token", map[string]string{"token": "first"})
	systemd := w.needs(carriedToken)

	t.Run("on a new machine", func(t *testing.T) {
		w.says(carrying("one", "1.36.4", carriedToken))
		w.start(files.Dir(w.TB), w.BootstrapToken(w.TB))
		w.approve()
		w.file("etc/a", "one")
		w.file(carriedToken, "first")
		w.addNode() // By the kubelet, which the configuration starts.
		w.annotated(carrying("one", "1.36.4", carriedToken))

		if missed := systemd.missing(); len(missed) > 0 {
			t.Errorf("%v started without its token", missed)
		}
	})

	t.Run("a configuration that moves it", func(t *testing.T) {
		const moved = "var/lib/moved/auth-token"
		systemd.file = w.onNode(moved)
		w.becomes(carrying("two", "1.36.4", moved))
		w.still(moved, "first")
		if missed := systemd.missing(); len(missed) > 0 {
			t.Errorf("%v started without its token", missed)
		}
	})

	t.Run("after a restart it is kept", func(t *testing.T) {
		w.stop()
		w.startAgain()
		w.put("token", map[string]string{"token": "second"})
		w.file("var/lib/moved/auth-token", "second")
	})
}

func TestTheKubernetesVersionFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	w := joinedFixture(t, carrying("one", "1.36.4", carriedToken))
	const label = "worker.gardener.cloud/kubernetes-version"
	w.labelled(label, "1.36.4")
	w.becomes(carrying("two", "1.36.5", carriedToken))
	w.labelled(label, "1.36.5")
	w.becomes(osc("three")) // One without a word about it leaves it to machine.yaml.
	w.labelled(label, "1.36.3")
}

// TestATokenOutlivesTheFileThatWasThereBefore: Gardener moves the tokens of a
// control plane from files of the configuration into syncs.
func TestATokenOutlivesTheFileThatWasThereBefore(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	w.put("token", map[string]string{"token": "first"})
	systemd := w.needs(carriedToken)
	const file = "  - path: /" + carriedToken + "\n    content: {inline: {data: %s}}\n"
	w.join(osc("one") + fmt.Sprintf(file, "first"))

	t.Run("the file goes, the token stays", func(t *testing.T) {
		w.becomes(carrying("two", "1.36.4", carriedToken))
		w.still(carriedToken, "first")
		if missed := systemd.missing(); len(missed) > 0 {
			t.Errorf("%v started without its token", missed)
		}
	})

	t.Run("what something else does to it is undone", func(t *testing.T) {
		for _, harm := range []func() error{
			func() error { return os.Remove(w.onNode(carriedToken)) },
			func() error { return os.WriteFile(w.onNode(carriedToken), []byte("other"), 0o640) },
		} {
			if err := harm(); err != nil {
				t.Fatal(err)
			}
			w.ahead.Add(int64(11 * time.Second))
			w.nodeSeen()
			w.file(carriedToken, "first")
		}
	})

	t.Run("a configuration with both leaves it to the sync", func(t *testing.T) {
		w.becomes(carrying("three", "1.36.4", carriedToken) + fmt.Sprintf(file, "stale"))
		w.still(carriedToken, "first")
		w.put("token", map[string]string{"token": "second"})
		w.file(carriedToken, "second")
	})

	t.Run("one without either leaves it where it is", func(t *testing.T) {
		w.becomes(osc("four"))
		w.still(carriedToken, "second")
	})

	t.Run("and a file again replaces it", func(t *testing.T) {
		w.becomes(osc("five") + fmt.Sprintf(file, "file"))
		w.still(carriedToken, "file")
		w.put("token", map[string]string{"token": "third"})
		w.file(tokenFile, "third")
		w.still(carriedToken, "file")
	})
}

func TestATokenThatIsNotThereYet(t *testing.T) {
	t.Parallel()
	w := joinedFixture(t, osc("one"))
	w.becomes(carrying("two", "1.36.4", carriedToken)) // It is reported, and the node continues.
	w.tells("TokenSync",
		"Warning sync the token of Secret token to /"+carriedToken+": no such Secret")
	w.put("token", map[string]string{"token": "late"})
	w.file(carriedToken, "late")
}
