package recorded

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	agent "github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/executor"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/units"
)

// fixture is a real control plane and one recorded node of it.
type fixture struct {
	testing.TB
	*cluster.Cluster
	node *Node

	// ahead is how far the node's clock is, serial that nodes take turns, delay
	// how long the Node's annotation has changes wait, "" without one.
	ahead  atomic.Int64
	serial bool
	delay  string

	// policy is how nodes take turns by a ledger, "" for not at all.
	policy string

	// from is how the node reaches the cluster, nil for as the tests have it.
	from func() agent.Config

	// counted ends the names of the flow schemas by which the API server counts.
	counted string

	// token is the Secret whose token is synced to tokenFile.
	token string

	// proxy is what the node reaches the API server through, nil for nothing.
	proxy *proxy

	// systemd is the node's, which outlives agents.
	systemd *units.Fake

	// adjust changes the node before it runs; nil for nothing.
	adjust func(*Node)

	// stop ends the node.
	stop func()

	// count makes the texts of poke and overtake others each time.
	count int
}

// controlPlanes are those of the tests that do not need one of their own.
var controlPlanes cluster.Lender

func newFixture(t testing.TB, options cluster.Options) *fixture {
	t.Helper()
	return newFixtureIn(t, controlPlanes.Borrow(t, options))
}

// newFixtureIn is newFixture in a cluster.
func newFixtureIn(t testing.TB, c *cluster.Cluster) *fixture {
	t.Helper()
	w := &fixture{TB: t, systemd: &units.Fake{}, token: "token", Cluster: c}
	w.AllowNodeAgents(t, "node-1")
	return w
}

// joinedFixture returns a fixture whose node has joined it and runs
// configuration text.
func joinedFixture(t testing.TB, text string) *fixture {
	t.Helper()
	w := newFixture(t, cluster.Options{Controllers: true})
	w.join(text)
	return w
}

// join has the node join the cluster, as a new machine, and run configuration
// text.
func (w *fixture) join(text string) {
	w.Helper()
	w.says(text)
	w.start(files.Dir(w.TB), w.BootstrapToken(w.TB))
	w.approve()
	w.addNode()
	w.annotated(text)
}

// config is how the node reaches the cluster.
func (w *fixture) config() agent.Config {
	if w.from != nil {
		return w.from()
	}

	c := agent.Config{
		Server:            w.URL(),
		CA:                []byte(w.CA()),
		SecretName:        secretName,
		Machine:           "machine-1",
		Hostname:          "Host-1",
		Zone:              "zone-1",
		KubernetesVersion: "1.36.3",
		Tokens:            []agent.Token{{Secret: w.token, Path: "/" + tokenFile}},
	}

	if w.proxy != nil {
		c.Server = w.proxy.URL
		c.CA = w.proxy.ca()
	}

	return c
}

// start runs the node on dir.
func (w *fixture) start(dir, token string) { w.Helper(); w.startWith(dir, token, w.systemd, 0) }

// startAgain starts the stopped node again, with its old files.
func (w *fixture) startAgain() { w.Helper(); w.start(w.node.Dir, "") }

func (w *fixture) startWith(dir, token string, systemd *units.Fake, steady time.Duration) {
	w.Helper()
	n, err := New(dir, w.config(), token, systemd, steady, logger())
	if err != nil {
		w.Fatal(err)
	}

	n.Cluster.Env.Now = w.now
	if w.adjust != nil {
		w.adjust(n)
	}

	w.node = n // What plays the node's systemd may look at it at once.
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- n.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-over, n.Close()); err != nil {
			w.Error(err)
		}
	})
	w.Cleanup(w.stop)
}

// change has the node start with another configuration of its engine.
func (n *Node) change(how func(*apply.Config)) {
	n.Agent.Engine = executor.With(n.Agent.Engine.(*apply.Executor), how)
}

// asks has the node ask another systemd.
func (n *Node) asks(systemd interface {
	apply.Units
	loop.Units
}) {
	n.change(func(c *apply.Config) { c.Units = systemd })
	n.Agent.Units = systemd
}

// now is the node's clock.
func (w *fixture) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// await waits until right is nil. It asks less and less often: many tests at a time keep
// the processors busy by asking.
func (w *fixture) await(what string, right func() error) {
	w.Helper()
	var err error
	end := time.Now().Add(90 * time.Second)
	for pause := 10 * time.Millisecond; time.Now().Before(end); time.Sleep(pause) {
		err = right()
		if err == nil {
			return
		}
		pause = min(pause*6/5, 100*time.Millisecond)
	}
	w.Fatalf("%s: %v", what, err)
}

// logger says what nodes do if LOAM_LOG is set.
func logger() *zap.Logger {
	if os.Getenv("LOAM_LOG") == "" {
		return zap.NewNop()
	}
	return zap.Must(zap.NewDevelopment())
}
