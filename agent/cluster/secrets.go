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
	// data is the content of the Secret, nil if it does not exist. It is valid
	// once ready is closed, which isKnown records.
	data    map[string][]byte
	ready   chan struct{}
	isKnown bool

	// isNamed says that the configuration refers to the Secret, hasToken that
	// it has a token to sync.
	isNamed, hasToken bool

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
		if r.isNamed || r.hasToken {
			continue
		}
		if r.stop != nil {
			r.stop()
		}
		delete(c.secrets, name)
	}
}

// get returns the value of key in a Secret that the configuration refers to.
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

	data, ok := r.data[key]
	if !ok {
		return config.Content{}, content.ErrAbsent
	}

	return config.Inline(data), nil
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
	case r.data == nil:
		return nil, true, errNoSecret
	case len(r.data["token"]) == 0:
		return nil, true, errNoKey
	}

	return r.data["token"], true, nil
}

// see records the content of a Secret, nil if it does not exist.
func (c *secretCache) see(r *reference, data map[string][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()

	r.data = data
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

// step starts the missing watches.
func (c *secretController) step(context.Context, *world) (outcome, error) {
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
				secret = &core.Secret{}
			}
			c.secrets.see(r, secret.Data)
		})
	}

	return outcome{}, nil
}
