package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
)

// Env is what a Cluster needs of its node.
type Env struct {
	// Root is the node's root directory.
	Root *os.Root

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

	// BootID is the kernel's boot ID.
	BootID string

	// Addresses returns the addresses of the node's interfaces.
	Addresses func() ([]netip.Addr, error)

	// Now is the wall clock, Uptime the time since kernel start, Part a random
	// number in [0, 1).
	Now    func() time.Time
	Uptime func() time.Duration
	Part   func() float64
	Log    *zap.Logger
}

// Cluster is the cluster that a node belongs to. It is the [source.Source] of
// the node's configuration, a [content.Provider] of Secrets, and receives the
// node's reports.
type Cluster struct {
	Config
	Env

	mu sync.Mutex

	// released is what Read returns, nil until the cluster was reached.
	released *pendingConfig

	// secrets are the watched Secrets by name.
	secrets map[string]*reference

	// link is the state of the connection to the API server.
	link status.Cluster

	changes chan struct{}

	// followed signals that secrets changed, reports has the newest status, and
	// posted carries functions for the session's goroutine.
	followed chan struct{}
	linked   chan struct{}
	reports  chan status.Status
	posted   chan func()
	events   chan event
	watches  atomic.Int64

	// reported is the generation of the last Report, guarded by mu.
	reported string

	// life is the context of Run. background are goroutines that may outlive a
	// session.
	life       context.Context
	background sync.WaitGroup
	nodeCache

	// problems are the errors with which a reachable API server rejects
	// requests, by the object of the request.
	problems map[string]string
}

// New returns a Cluster without a connection. Run connects it.
func New(config Config, env Env) *Cluster {
	c := &Cluster{
		Config:   config,
		Env:      env,
		secrets:  map[string]*reference{},
		problems: map[string]string{},
		link: status.Cluster{
			Server: config.Server,
			Secret: newCredentialStore(env.Root).secret(config.SecretName),
			Since:  env.Now(),
		},
		changes:  make(chan struct{}, 1),
		followed: make(chan struct{}, 1),
		linked:   make(chan struct{}, 1),
		events:   make(chan event, 16),
		reports:  make(chan status.Status, 1),
		posted:   make(chan func()),
	}

	c.tokens.written = map[Token]bool{}
	c.tokens.progress = make(chan struct{}, 1)
	return c
}

// WatchRestarts returns how many watches were restarted since the start.
func (c *Cluster) WatchRestarts() int { return int(c.watches.Load()) }

// Event records an Event about the Node, as soon as the Node is known. It does
// not block.
func (c *Cluster) Event(warning bool, reason, message string) {
	kind := core.EventTypeNormal
	if warning {
		kind = core.EventTypeWarning
	}
	select {
	case c.events <- event{kind, reason, message}:
	default: // Too many at once: the log has them.
	}
}

type event struct{ kind, reason, message string }

// Read implements [source.Source]. It returns the configuration that was last
// released for this node, or ErrAbsent until the API server was reached.
func (c *Cluster) Read(context.Context) (source.Document, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := fmt.Sprintf("Secret %s/%s", namespace, c.link.Secret)
	switch {
	case c.released == nil:
		return source.Document{}, fmt.Errorf("%s at %s: %w yet",
			name, c.link.Server, source.ErrAbsent)
	case c.released.text == nil:
		return source.Document{}, fmt.Errorf("%s at %s: %w", name, c.link.Server, source.ErrAbsent)
	}

	return source.Document{
		Name:        name,
		Text:        c.released.text,
		Version:     c.released.sum,
		FromCluster: true,
	}, nil
}

// Watch implements [source.Source].
func (c *Cluster) Watch(context.Context) (<-chan struct{}, error) { return c.changes, nil }

// Report hands the node's newest status to the session. It does not wait.
func (c *Cluster) Report(s status.Status) {
	c.mu.Lock()
	if c.reported != s.Generation {
		// The new generation is applied, or was reverted.
		c.reported = s.Generation
		c.tokens.coming = nil
	}

	c.mu.Unlock()

	select {
	case <-c.reports: // An older status that no session has read.
	default:
	}

	c.reports <- s
}

// Linked signals that Link has changed.
func (c *Cluster) Linked() <-chan struct{} { return c.linked }

// Link returns the state of the connection to the API server.
func (c *Cluster) Link() status.Cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link
}

// Run joins the cluster and runs one session after another until ctx ends.
func (c *Cluster) Run(ctx context.Context) {
	defer c.background.Wait()
	c.life = ctx
	c.update.load(c.store(), c.Log)
	refused := false
	hold := time.Duration(0)
	for ctx.Err() == nil {
		token, _ := c.store().token()
		who, err := c.identify(ctx, refused)
		if err == nil {
			refused = c.session(ctx, who)
			token, _ = c.store().token() // After joining, the token is not needed.
		} else {
			refused = false // The credentials may be accepted the next time.
			c.recordResult("join", err)
		}

		hold = nextHold(hold, err, refused)
		if hold > 0 && c.pauseFor(ctx, c.about(hold), token) {
			hold = 0
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Gardener's approver refuses a bootstrap token while the machine has a Node,
// so the hints must say so.
const (
	tokenHint = "write a new token to /" + tokenName + ", or give the node a machine.yaml with one"
	nodeHint  = "where Gardener approves certificates, delete the Node object first: " +
		"it takes no bootstrap token of a machine that has one"
)

var errNoToken = errors.New("no valid certificate and no bootstrap token; hint: " + tokenHint +
	"; " + nodeHint)

// joinHint adds a hint to an error from requesting a certificate with a
// bootstrap token.
func joinHint(err error) error {
	switch {
	case errors.Is(err, ErrDenied):
		return fmt.Errorf("%w; hint: %s", err, nodeHint)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w; hint: the bootstrap token is unknown or has expired: %s; %s",
			err, tokenHint, nodeHint)
	}
	return err
}

// identify returns the node's credentials. If they are missing, expired or
// refused, it requests new ones with the bootstrap token.
func (c *Cluster) identify(ctx context.Context, refused bool) (Credentials, error) {
	k := c.store()
	who, ok := k.credentials()

	token, err := k.token()
	if err == nil && token == "" {
		token = c.Token
	}

	if token != "" && c.update.record.Version == "" {
		// During an update, the kubelet may join with its certificate.
		err = k.writeKubeletBootstrap(c.Config, token)
	}

	if err != nil {
		c.Log.Error("join", zap.Error(err)) // A node with a certificate can go on.
	}

	expired := ok && !c.Now().Before(who.NotAfter)
	switch {
	case ok && !expired && (!refused || token == ""):
		return who, nil
	case token == "":
		return who, errNoToken
	}

	who, err = c.join(ctx, c.Config, Credentials{}, token)
	return who, joinHint(err)
}

// join requests a certificate, as the holder of credentials or with the token,
// and saves it.
func (c *Cluster) join(
	ctx context.Context, config Config, as Credentials, token string,
) (Credentials, error) {
	k := c.store()
	key, err := k.key()
	if err != nil {
		return Credentials{}, err
	}

	a, err := newAPI(config.rest(as, token))
	if err != nil {
		return Credentials{}, err
	}
	defer a.close()

	c.Log.Info("requesting a certificate", zap.String("name", config.commonName()))
	who, err := a.request(ctx, config.commonName(), key)
	if errors.Is(err, ErrDenied) || errors.Is(err, errUnreadable) {
		err = errors.Join(err, k.dropKey())
	}

	if err != nil {
		return Credentials{}, err
	}

	return who, k.saveCredentials(config, who)
}

// recordResult records whether a request reached the API server and how it
// answered. A server that rejects a request is connected; key says what the
// request was for.
func (c *Cluster) recordResult(key string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}

	c.updateLink(func(l *status.Cluster) {
		switch {
		case err != nil && !isRefusal(err):
			if l.Connected {
				l.Connected = false
				l.Since = c.Now()
			}
			l.Problem = err.Error()
			return
		case !l.Connected:
			l.Connected, l.Since, l.Reached = true, c.Now(), true
		}

		delete(c.problems, key)
		if err != nil && !apierrors.IsConflict(err) {
			c.problems[key] = err.Error()
		}

		l.Problem = c.problem()
	})
}

// isRefusal reports whether err is a rejection from a healthy API server.
func isRefusal(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	code := answer.Status().Code
	return code >= 400 && code < 500 && code != http.StatusUnauthorized &&
		code != http.StatusTooManyRequests
}

// setProblem records a problem under key. An empty problem clears it.
func (c *Cluster) setProblem(key, problem string) {
	c.updateLink(func(l *status.Cluster) {
		delete(c.problems, key)
		if problem != "" {
			c.problems[key] = problem
		}
		if l.Connected {
			l.Problem = c.problem()
		}
	})
}

// problem returns the first of problems, "" if there are none.
func (c *Cluster) problem() string {
	if len(c.problems) == 0 {
		return ""
	}
	return c.problems[slices.Min(slices.Collect(maps.Keys(c.problems)))]
}

// updateLink edits link and signals a change.
func (c *Cluster) updateLink(edit func(l *status.Cluster)) {
	c.mu.Lock()
	before := c.link
	edit(&c.link)
	after := c.link
	c.mu.Unlock()

	if before == after {
		return
	}

	signal(c.linked)
	if before.Connected != after.Connected || before.Problem == "" && after.Problem != "" {
		c.Log.Info("API server", zap.Bool("connected", after.Connected),
			zap.String("problem", after.Problem))
	}
}

// release makes o the result of Read and signals the change.
func (c *Cluster) release(o pendingConfig) {
	c.mu.Lock()
	c.released = &o
	c.link.Secret = o.secret
	c.mu.Unlock()
	signal(c.changes)
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
