package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/osc"
)

// secretTimeout is how long to wait for a Secret that was never seen.
const secretTimeout = 5 * time.Second

// secretCache has the Secrets that the configuration refers to and those with
// tokens, as they are in the cluster.
type secretCache struct {
	// changed signals that a Secret that the configuration refers to has
	// changed.
	changed chan struct{}

	mu      sync.Mutex
	secrets map[string]*reference
}

// reference is a Secret that the configuration refers to or that has a token.
type reference struct {
	// secret is the Secret, nil if it does not exist. It is valid once ready is
	// closed, which isKnown records.
	secret  *core.Secret
	ready   chan struct{}
	isKnown bool

	// isNamed says that the configuration refers to the Secret, isPending that
	// the pending one does, hasToken that it has a token to sync.
	isNamed, isPending, hasToken bool

	// stop ends the watch. It is nil while there is no session.
	stop context.CancelFunc
}

func newSecretCache(changed chan struct{}) *secretCache {
	return &secretCache{changed: changed, secrets: map[string]*reference{}}
}

// follow takes in which Secrets the configuration refers to.
func (c *secretCache) follow(references []osc.Reference) {
	named := map[string]bool{}
	for _, r := range references {
		if r.Secret != "" {
			named[r.Secret] = true
		}
	}

	c.mark(named, func(r *reference) *bool { return &r.isNamed })
}

// followPending takes in which Secrets the pending configuration refers to.
func (c *secretCache) followPending(references []osc.Reference) {
	named := map[string]bool{}
	for _, r := range references {
		named[r.Secret] = true
	}

	c.mark(named, func(r *reference) *bool { return &r.isPending })
}

// followTokens takes in which Secrets have tokens.
func (c *secretCache) followTokens(all []Token) {
	withToken := map[string]bool{}
	for _, t := range all {
		withToken[t.Secret] = true
	}

	c.mark(withToken, func(r *reference) *bool { return &r.hasToken })
}

// mark sets a flag of the Secrets in names, clears it for all others, and
// forgets Secrets without any flag.
func (c *secretCache) mark(names map[string]bool, flag func(*reference) *bool) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for name, r := range c.secrets {
		*flag(r) = names[name]
	}

	for name := range names {
		if c.secrets[name] == nil {
			c.secrets[name] = &reference{ready: make(chan struct{})}
		}
		*flag(c.secrets[name]) = true
	}

	c.dropUnused()
}

// dropUnused forgets Secrets that are no longer needed. mu must be held.
func (c *secretCache) dropUnused() {
	for name, r := range c.secrets {
		if r.isNamed || r.isPending || r.hasToken {
			continue
		}
		if r.stop != nil {
			r.stop()
		}
		delete(c.secrets, name)
	}
}

// newest returns the Secrets that references name, by name: nil for one that does
// not exist, and none that is not known yet.
func (c *secretCache) newest(references []osc.Reference) map[string]*core.Secret {
	c.mu.Lock()
	defer c.mu.Unlock()

	newest := map[string]*core.Secret{}
	for _, from := range references {
		if r := c.secrets[from.Secret]; r != nil && r.isKnown {
			newest[from.Secret] = r.secret
		}
	}
	return newest
}

// get returns the newest value of key in a Secret that the configuration refers
// to.
func (c *secretCache) get(ctx context.Context, name, key string) (config.Content, error) {
	c.mu.Lock()
	r := c.secrets[name]
	isNamed := r != nil && r.isNamed
	c.mu.Unlock()

	if !isNamed {
		return config.Content{}, fmt.Errorf("secret %s: nothing refers to it", name)
	}

	select {
	case <-r.ready:
	case <-time.After(secretTimeout):
		return config.Content{}, fmt.Errorf("secret %s: no answer from the API server", name)
	case <-ctx.Done():
		return config.Content{}, ctx.Err()
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if r.secret == nil {
		return config.Content{}, content.ErrAbsent
	}
	value, ok := r.secret.Data[key]
	if !ok {
		return config.Content{}, content.ErrAbsent
	}

	return config.Inline(value), nil
}

var (
	errNoSecret = errors.New("no such Secret")
	errNoKey    = errors.New("the Secret has no token")
)

// token returns the token in a Secret, and false until the Secret is known.
func (c *secretCache) token(name string) (token []byte, isKnown bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	r := c.secrets[name]
	switch {
	case r == nil || !r.hasToken || !r.isKnown:
		return nil, false, nil
	case r.secret == nil:
		return nil, true, errNoSecret
	case len(r.secret.Data["token"]) == 0:
		return nil, true, errNoKey
	}

	return r.secret.Data["token"], true, nil
}

// see records a Secret, nil if it does not exist.
func (c *secretCache) see(r *reference, secret *core.Secret) {
	c.mu.Lock()
	defer c.mu.Unlock()

	r.secret = secret
	if !r.isKnown {
		r.isKnown = true
		close(r.ready)
		return
	}

	if r.isNamed {
		signal(c.changed)
	}
}

// stopAll records that all watches have ended. The next session determines
// again which Secrets have tokens.
func (c *secretCache) stopAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.secrets {
		r.stop = nil
		r.hasToken = false
	}
	c.dropUnused()
}

// secretController watches the Secrets in the cache.
type secretController struct {
	secrets *secretCache
	api     *api
	watcher *watcher
}

// step starts the missing watches, and gives the pending configuration the values
// of its Secrets.
func (c *secretController) step(_ context.Context, w *world) (outcome, error) {
	var references []osc.Reference
	if w.pending != nil {
		references = w.pending.references
	}
	c.secrets.followPending(references)
	c.watch()
	w.setValues(c.secrets.newest(references))
	return outcome{}, nil
}

// watch starts the missing watches.
func (c *secretController) watch() {
	c.secrets.mu.Lock()
	defer c.secrets.mu.Unlock()

	for name, r := range c.secrets.secrets {
		if r.stop != nil {
			continue
		}

		var ctx context.Context
		ctx, r.stop = context.WithCancel(c.watcher.ctx)
		q := byName(c.api.core, "secrets", namespace, name)
		watchOne(ctx, c.watcher, q, &core.Secret{}, func(secret *core.Secret, ok bool) {
			if !ok {
				secret = nil
			}
			c.secrets.see(r, secret)
		})
	}
}
