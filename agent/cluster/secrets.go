package cluster

import (
	"context"
	"fmt"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/osc"
)

// reference is a Secret that the configuration refers to or that has a token.
type reference struct {
	// data is what it has, nil if there is none; valid once known is closed.
	data  map[string][]byte
	known chan struct{}
	isIt  bool

	// isNamed says that the configuration refers to it, hasToken that a token
	// does.
	isNamed, hasToken bool

	// kept are the files of its tokens by path, for the session's goroutine
	// only.
	kept map[string]kept

	// stop ends its watch; nil while there is no session.
	stop context.CancelFunc
}

// patience is how long a Secret is waited for that was never seen.
const patience = 5 * time.Second

// Follow has the Secrets watched that are referred to or have tokens, and no
// others.
func (c *Cluster) Follow(references []osc.Reference) {
	named := map[string]bool{}
	for _, r := range references {
		if r.Secret != "" {
			named[r.Secret] = true
		}
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	for name, r := range c.secrets {
		r.isNamed = named[name]
	}

	for name := range named {
		c.refer(name).isNamed = true
	}

	c.dropUnused()
	signal(c.followed)
}

// refer is the reference to a Secret, made if there is none. mu is held.
func (c *Cluster) refer(name string) *reference {
	if c.secrets[name] == nil {
		c.secrets[name] = &reference{known: make(chan struct{})}
	}
	return c.secrets[name]
}

// dropUnused forgets Secrets that nothing is to know of. mu is held.
func (c *Cluster) dropUnused() {
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

// Secret is of content.Provider: what the Secret of namespace kube-system has
// under key. One that is followed is what it is now.
func (c *Cluster) Secret(ctx context.Context, name, key string) (config.Content, error) {
	c.mu.Lock()
	r := c.secrets[name]
	isNamed := r != nil && r.isNamed
	c.mu.Unlock()

	if !isNamed {
		return config.Content{}, fmt.Errorf("secret %s: nothing refers to it", name)
	}

	select {
	case <-r.known:
	case <-time.After(patience):
		return config.Content{}, fmt.Errorf("secret %s: the API server does not tell", name)
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

// Image is of content.Provider: a cluster has none.
func (c *Cluster) Image(context.Context, string, string) (config.Content, error) {
	return config.Content{}, content.ErrAbsent
}

// followAll watches the Secrets that are followed and are not watched yet.
func (s *session) followAll(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for name, r := range s.secrets {
		if r.stop != nil {
			continue
		}

		var watching context.Context
		watching, r.stop = context.WithCancel(ctx)
		observe(
			watching,
			s,
			byName(s.api.core, "secrets", namespace, name),
			&core.Secret{},
			func(secret *core.Secret, ok bool) {
				s.mu.Lock()
				defer s.mu.Unlock()
				r.data = nil
				if ok {
					r.data = secret.Data
				}

				if !r.isIt {
					r.isIt = true
					close(r.known)
					return
				}

				if r.isNamed {
					signal(s.changes)
				}
			},
		)
	}
}

// unfollow notes that nothing is watched any more. The next session says again
// which Secrets have tokens.
func (s *session) unfollow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.secrets {
		r.stop = nil
		r.hasToken = false
	}
	s.dropUnused()
}
