package cluster

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	core "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/cluster/reach"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/hint/redact"
)

// Env is what a Cluster needs of its node.
type Env struct {
	// Root is the node's root directory. Image has the links that tokens may be
	// written through; see [durable.Dir.WithImage].
	Root  *os.Root
	Image fs.FS

	// Spare makes room for what is recorded; nil for none. hook is called before
	// each step of a record; nil for none.
	Spare *durable.Spare
	hook  durable.Hook

	// Token is the bootstrap token. If empty, the node's file has it.
	Token string

	// Reload reads Config again, because a configuration may have changed its
	// sources; nil if it cannot change.
	Reload func() (Config, error)

	// Restart restarts units, Kubelet reports whether the kubelet is healthy,
	// Upgrade makes the node boot another version of its image. Each is nil if
	// the node cannot do it.
	Restart func(ctx context.Context, units []string) error
	Kubelet func(ctx context.Context) error
	Upgrade func(ctx context.Context, version string) error

	// Apply applies once more a configuration that was released before, and Again
	// brings a release that has failed here; they return once that is over, or the
	// release is ready. Each is nil if the node cannot do it.
	Apply func(ctx context.Context) error
	Again func(ctx context.Context, version string) error

	// Classify returns what a configuration with the values of these Secrets would
	// disturb on this node; nil if that is not known.
	Classify func(ctx context.Context, text []byte, secrets content.Provider) (turns.Class, error)

	// BootID is the kernel's boot ID.
	BootID string

	// Addresses returns the addresses of the node's interfaces.
	Addresses func() ([]netip.Addr, error)

	// Network observes the node's network, to say what a request has tried; nil
	// if that is not known.
	Network func() reach.Network

	// Now is the wall clock, Uptime the time since kernel start, Part a random
	// number in [0, 1).
	Now    func() time.Time
	Uptime func() time.Duration
	Part   func() float64
	Log    *zap.Logger
}

// records returns where the node records what it must know after a restart.
func (e Env) records() *durable.Dir { return durable.New(e.Root, e.hook).WithSpare(e.Spare) }

// about returns a random duration between half of d and one and a half, to
// spread the nodes.
func (e Env) about(d time.Duration) time.Duration {
	return time.Duration((0.5 + e.Part()) * float64(d))
}

// joiner returns what gets the node its certificates.
func (e Env) joiner() credentials.Joiner {
	return credentials.Joiner{
		Root:           e.Root,
		Spare:          e.Spare,
		BootstrapToken: e.Token,
		Now:            e.Now,
		Log:            e.Log,
	}
}

// Cluster is the cluster that a node belongs to. It is the [source.Source] of
// the node's configuration, a [content.Provider] of Secrets, and receives the
// node's reports. Its methods may be called by several goroutines: each field
// is constant once Run is called, or locks itself. What only one goroutine may
// touch is not here, but in the memory of Run and in its sessions.
type Cluster struct {
	// Env is the node, Config how Run first reaches the cluster. Both may be
	// changed until Run is called.
	Env    Env
	Config Config

	// inbox is how other goroutines reach the one of Run.
	inbox inbox

	link     *link
	released *released
	secrets  *secretCache
	tokens   *tokenProgress
	system   *systemTurn

	// watches counts the watches that were restarted.
	watches atomic.Int64

	// drains counts the drains of the node, turns its turns.
	drains drainCount
	turns  turnCount
}

// New returns a Cluster without a connection. Run connects it.
func New(config Config, env Env) *Cluster {
	changed := make(chan struct{}, 1)
	return &Cluster{
		Env:    env,
		Config: config,
		inbox:  newInbox(),
		link: newLink(env.Log, status.Cluster{
			Server: redact.URLs(config.Server),
			Secret: loadSecretName(env.Root, config.SecretName),
			Since:  env.Now(),
		}),
		released: &released{changed: changed},
		secrets:  newSecretCache(changed),
		tokens:   newTokenProgress(),
		system:   newSystemTurn(!loadTurn(env.Root, env.Log).byPolicy),
	}
}

// Run joins the cluster and runs one session after another until ctx ends. All
// that decides about the node runs on the goroutine that calls it.
func (c *Cluster) Run(ctx context.Context) {
	var background sync.WaitGroup
	defer background.Wait()

	c.link.network = c.Env.Network
	j := c.Env.joiner()
	j.Waits = func(err error) { c.link.record("join", err, c.Env.Now()) }
	m := newMemory(c.Config, c.Env)
	refused := false
	wait := time.Duration(0)

	for ctx.Err() == nil {
		token, _ := j.Token()
		c.link.identify(credentials.Called(cmp.Or(token, c.Env.Token)))
		updating := m.updates.record.Version != ""
		who, err := j.Identify(ctx, m.world.config.target(), refused, updating)
		if err == nil {
			c.link.setProblem("join", reach.Problem{}) // It was refused before.
			refused = c.runSession(ctx, m, who, &background)
			token, _ = j.Token() // After joining, the token is not needed.
		} else {
			refused = false // The credentials may be accepted the next time.
			c.link.record("join", err, c.Env.Now())
		}

		wait = joinPause(wait, err, refused)
		if wait > 0 && j.PauseFor(ctx, c.Env.about(wait), token) {
			wait = 0
		}
	}
}

// Read implements [source.Source]. It returns the configuration that was last
// released for this node. It returns ErrAbsent until the API server was reached, and
// with the version of one that was withdrawn.
func (c *Cluster) Read(context.Context) (source.Document, error) {
	link := c.link.get()
	released := c.released.get()
	name := secretSource(link.Secret)

	switch {
	case released == nil:
		return source.Document{}, fmt.Errorf("%s at %s: %w yet",
			name, link.Server, source.ErrAbsent)
	case released.isWithdrawn:
		return source.Document{Version: released.sum}, fmt.Errorf("%s at %s: the next "+
			"configuration needs a turn of its own: %w", name, link.Server, source.ErrAbsent)
	case released.text == nil:
		return source.Document{}, fmt.Errorf("%s at %s: %w", name, link.Server, source.ErrAbsent)
	}

	return source.Document{
		Name:        name,
		Text:        released.text,
		Version:     released.sum,
		FromCluster: true,
	}, nil
}

// Watch implements [source.Source].
func (c *Cluster) Watch(context.Context) (<-chan struct{}, error) { return c.released.changed, nil }

// Report hands the node's newest status to the session. It does not wait.
func (c *Cluster) Report(s status.Status) {
	c.tokens.applied(s.Generation)
	c.inbox.report(s)
}

// Event records an Event about the Node, as soon as the Node is known. It does
// not block.
func (c *Cluster) Event(warning bool, reason, message string) {
	c.inbox.event(warning, reason, message)
}

// Follow watches the Secrets in references and those with tokens, and stops
// watching all others.
func (c *Cluster) Follow(references []osc.Reference) {
	c.secrets.follow(references)
	signal(c.inbox.wake)
}

// Prepare syncs the tokens of a configuration that is about to be applied and
// waits until their files are written, because units of that configuration may
// not start without them. It waits for at most secretTimeout, and not at all
// while the API server does not answer. A zero configuration withdraws one that
// is not applied after all.
func (c *Cluster) Prepare(ctx context.Context, desired config.Desired) {
	coming, err := tokensIn(desired)
	if err != nil {
		c.Env.Log.Error("read the token syncs of the configuration", zap.Error(err))
	}

	c.tokens.prepare(coming)
	signal(c.inbox.wake)

	if c.link.get().Connected {
		c.tokens.wait(ctx, coming)
	}
}

// Secret implements [content.Provider]. It returns the value of key in the
// Secret, which must be in namespace kube-system and in the references of the
// last Follow. If new values wait for a turn, it returns the one that was
// released, while the Secret is there.
func (c *Cluster) Secret(ctx context.Context, name, key string) (config.Content, error) {
	newest, err := c.secrets.get(ctx, name, key)
	if err != nil {
		return config.Content{}, err
	}

	released := c.released.get()
	if released.refersTo(osc.Reference{Secret: name, Key: key}) {
		return released.Secret(ctx, name, key)
	}
	return newest, nil
}

// Image implements [content.Provider]. A cluster has no images.
func (c *Cluster) Image(context.Context, string, string) (config.Content, error) {
	return config.Content{}, content.ErrAbsent
}

// Linked signals that Link has changed.
func (c *Cluster) Linked() <-chan struct{} { return c.link.changed }

// Link returns the state of the connection to the API server.
func (c *Cluster) Link() status.Cluster { return c.link.get() }

// WatchRestarts returns how many watches were restarted since the start.
func (c *Cluster) WatchRestarts() int { return int(c.watches.Load()) }

// released is the configuration that Read returns.
type released struct {
	changed chan struct{}

	mu sync.Mutex

	// config is nil until the cluster was reached.
	config *pendingConfig
}

func (r *released) get() *pendingConfig {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.config
}

// set makes c the result of Read and signals the change.
func (r *released) set(c *pendingConfig) {
	r.mu.Lock()
	r.config = c
	r.mu.Unlock()
	signal(r.changed)
}

// inbox is how other goroutines reach the one of Run.
type inbox struct {
	// reports has the newest status, if no session has read it.
	reports chan status.Status

	// events are the Events to record.
	events chan event

	// posted are functions for Run's goroutine to call.
	posted chan func()

	// wake makes a session run a step.
	wake chan struct{}
}

func newInbox() inbox {
	return inbox{
		reports: make(chan status.Status, 1),
		events:  make(chan event, 16),
		posted:  make(chan func()),
		wake:    make(chan struct{}, 1),
	}
}

// report replaces a status that no session has read.
func (i inbox) report(s status.Status) {
	select {
	case <-i.reports:
	default:
	}
	i.reports <- s
}

// event is an Event about the Node.
type event struct{ kind, reason, message string }

func (i inbox) event(warning bool, reason, message string) {
	kind := core.EventTypeNormal
	if warning {
		kind = core.EventTypeWarning
	}

	select {
	case i.events <- event{kind, reason, message}:
	default: // Too many at once: the log has them.
	}
}

// post makes Run's goroutine call f, and returns once it has begun.
func (i inbox) post(ctx context.Context, f func()) {
	select {
	case i.posted <- f:
	case <-ctx.Done():
	}
}

// drainCount counts drains by how they ended.
type drainCount struct{ drained, postponed atomic.Int64 }

// Drains returns how many drains of the node succeeded since the start, and how
// many were postponed.
func (c *Cluster) Drains() (drained, postponed int) {
	return int(c.drains.drained.Load()), int(c.drains.postponed.Load())
}

// turnCount counts turns by how they ended.
type turnCount struct{ done, failed, postponed atomic.Int64 }

// Turns returns how many turns the node has given since the start: after its
// change was proven, after it failed, and unused.
func (c *Cluster) Turns() (done, failed, postponed int) {
	return int(c.turns.done.Load()), int(c.turns.failed.Load()), int(c.turns.postponed.Load())
}

// Identity returns where a node keeps its identity in the cluster: directories
// with nothing else in them, and files. All paths are absolute. Config names
// the files of tokens.
func Identity() (directories, files []string) {
	directories = []string{credentials.Directory, credentials.KubeletDirectory}
	return directories, []string{"/" + recordName, "/" + turnName}
}

// Silence keeps client-go from writing to standard error. Callers get every
// error as a return value. It must be called at the start of the process.
func Silence() { klog.SetLogger(logr.Discard()) }

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
