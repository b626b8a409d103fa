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

// Env is what a Cluster has of its node.
type Env struct {
	// Root is the node's root directory.
	Root *os.Root

	// Token is the bootstrap token, "" for that in the node's file.
	Token string

	// Reload reads Config again, as a configuration may have changed what that
	// was read from; nil if it cannot change.
	Reload func() (Config, error)

	// Restart restarts units, Kubelet reports whether the kubelet is well,
	// Upgrade has the node start another version of its image; nil if it
	// cannot.
	Restart func(ctx context.Context, units []string) error
	Kubelet func(ctx context.Context) error
	Upgrade func(ctx context.Context, version string) error

	// BootID is the kernel's id of this boot.
	BootID string

	// Addresses are those of the node's interfaces.
	Addresses func() ([]netip.Addr, error)

	// Now is the wall clock, Uptime the time since kernel start, Part a random
	// number in [0, 1).
	Now    func() time.Time
	Uptime func() time.Duration
	Part   func() float64
	Log    *zap.Logger
}

// Cluster is the cluster that a node is part of: a source.Source of its
// configuration, a content.Provider of Secrets, and who is reported to.
type Cluster struct {
	Config
	Env

	mu sync.Mutex

	// released is what Read returns, nil before the cluster was reached.
	released *offer

	// secrets are those that the configuration refers to.
	secrets map[string]*reference

	// link is how it is with the API server.
	link status.Cluster

	changes chan struct{}

	// followed says that secrets is another set, reports has the newest status,
	// posted what the watches of a session see.
	followed chan struct{}
	linked   chan struct{}
	reports  chan status.Status
	posted   chan func()
	events   chan event
	watches  atomic.Int64

	// reported is the generation that Report was told of last. mu guards it.
	reported string

	// life is Run's, others what goes on beside sessions.
	life   context.Context
	others sync.WaitGroup
	known

	// problems are what keeps the API server from doing what it is asked, by
	// what that is; it answers all the same.
	problems map[string]string
}

// New makes a Cluster that has not been reached yet; Run is what reaches it.
func New(config Config, env Env) *Cluster {
	c := &Cluster{
		Config:   config,
		Env:      env,
		secrets:  map[string]*reference{},
		problems: map[string]string{},
		link: status.Cluster{
			Server: config.Server,
			Secret: keepOf(env.Root).secret(config.SecretName),
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

// WatchRestarts is how often something was watched anew since the start.
func (c *Cluster) WatchRestarts() int { return int(c.watches.Load()) }

// Event tells people what happened to the Node, once there is one to tell it
// of.
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

// Read is of source.Source: what the cluster says, as soon as it is this node's
// turn. Until the API server has been reached, there is nothing.
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

// Watch is of source.Source.
func (c *Cluster) Watch(context.Context) (<-chan struct{}, error) { return c.changes, nil }

// Report tells the cluster how the node stands. It does not wait.
func (c *Cluster) Report(s status.Status) {
	c.mu.Lock()
	if c.reported != s.Generation {
		// It has come, or has gone again.
		c.reported = s.Generation
		c.tokens.coming = nil
	}

	c.mu.Unlock()

	select {
	case <-c.reports: // An older one that nobody has taken.
	default:
	}

	c.reports <- s
}

// Linked tells when Link changes.
func (c *Cluster) Linked() <-chan struct{} { return c.linked }

// Link is how it is with the API server.
func (c *Cluster) Link() status.Cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link
}

// Run is the node's life in the cluster, until ctx ends.
func (c *Cluster) Run(ctx context.Context) {
	defer c.others.Wait()
	c.life = ctx
	c.update.load(c.keep(), c.Log)
	refused := false
	hold := time.Duration(0)
	for ctx.Err() == nil {
		token, _ := c.keep().token()
		who, err := c.identify(ctx, refused)
		if err == nil {
			refused = c.session(ctx, who)
			token, _ = c.keep().token() // Who has joined needs none any more.
		} else {
			refused = false // What it has may be taken the next time.
			c.tried("join", err)
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

// Gardener's approver refuses a bootstrap token while there is a Node: the
// hints have to say so.
const (
	tokenHint = "write a new token to /" + tokenName + ", or give the node a machine.yaml with one"
	nodeHint  = "where Gardener approves certificates, delete the Node object first: " +
		"it takes no bootstrap token of a machine that has one"
)

var errNoToken = errors.New("no valid certificate and no bootstrap token; hint: " + tokenHint +
	"; " + nodeHint)

// joinHint adds to an error of asking for a certificate by a token what can be
// done.
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

// identify is who the node is to the cluster: its certificate or, if that is
// missing, has expired or was refused, a new one by the bootstrap token.
func (c *Cluster) identify(ctx context.Context, refused bool) (Credentials, error) {
	k := c.keep()
	who, ok := k.credentials()

	token, err := k.token()
	if err == nil && token == "" {
		token = c.Token
	}

	if token != "" && c.update.record.Version == "" {
		// In an update, the kubelet may join with its certificate.
		err = k.kubelet(c.Config, token)
	}

	if err != nil {
		c.Log.Error("join", zap.Error(err)) // Who has a certificate needs none of it.
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

// join asks for a certificate, as who or by the token, and keeps it.
func (c *Cluster) join(
	ctx context.Context, config Config, as Credentials, token string,
) (Credentials, error) {
	k := c.keep()
	key, err := k.key()
	if err != nil {
		return Credentials{}, err
	}

	a, err := newAPI(config.rest(as, token))
	if err != nil {
		return Credentials{}, err
	}
	defer a.close()

	c.Log.Info("asking for a certificate", zap.String("name", config.commonName()))
	who, err := a.request(ctx, config.commonName(), key)
	if errors.Is(err, ErrDenied) || errors.Is(err, errUnreadable) {
		err = errors.Join(err, k.forget())
	}

	if err != nil {
		return Credentials{}, err
	}

	return who, k.save(config, who)
}

// tried notes whether the API server was reached by a request for what key
// says, and how it answered: one that refuses what it is asked is there.
func (c *Cluster) tried(key string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}

	c.relink(func(l *status.Cluster) {
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

// isRefusal reports whether err is the answer of an API server that is well.
func isRefusal(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	code := answer.Status().Code
	return code >= 400 && code < 500 && code != http.StatusUnauthorized &&
		code != http.StatusTooManyRequests
}

// note keeps a problem with what key says, "" for none.
func (c *Cluster) note(key, problem string) {
	c.relink(func(l *status.Cluster) {
		delete(c.problems, key)
		if problem != "" {
			c.problems[key] = problem
		}
		if l.Connected {
			l.Problem = c.problem()
		}
	})
}

// problem is the first of problems, "" if there is none.
func (c *Cluster) problem() string {
	if len(c.problems) == 0 {
		return ""
	}
	return c.problems[slices.Min(slices.Collect(maps.Keys(c.problems)))]
}

// relink changes link, and tells so.
func (c *Cluster) relink(edit func(l *status.Cluster)) {
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

// release makes o what Read returns.
func (c *Cluster) release(o offer) {
	c.mu.Lock()
	c.released = &o
	c.link.Secret = o.secret
	c.mu.Unlock()
	signal(c.changes)
}

// Silence keeps client-go from writing to standard error: what goes wrong,
// those who ask for something are told. It is for the start of a process.
func Silence() { klog.SetLogger(logr.Discard()) }

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
