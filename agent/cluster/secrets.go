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
	// data is the content of the Secret, nil if it does not exist. It is valid
	// once ready is closed, which isKnown records.
	data    map[string][]byte
	ready   chan struct{}
	isKnown bool

	// isNamed says that the configuration refers to the Secret, hasToken that
	// it has a token to sync.
	isNamed, hasToken bool

	// files are the files of its tokens by path. Only the session's goroutine
	// uses them.
	files map[string]tokenFile

	// stop ends the watch. It is nil while there is no session.
	stop context.CancelFunc
}

// secretTimeout is how long to wait for a Secret that was never seen.
const secretTimeout = 5 * time.Second

// Follow watches the Secrets in references and those with tokens, and stops
// watching all others.
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

// refer returns the reference to a Secret and creates it if absent. mu must be
// held.
func (c *Cluster) refer(name string) *reference {
	if c.secrets[name] == nil {
		c.secrets[name] = &reference{ready: make(chan struct{})}
	}
	return c.secrets[name]
}

// dropUnused forgets Secrets that are no longer needed. mu must be held.
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

// Secret implements [content.Provider]. It returns the value of key in the
// Secret, which must be in namespace kube-system and in the references of the
// last Follow.
func (c *Cluster) Secret(ctx context.Context, name, key string) (config.Content, error) {
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

// Image implements [content.Provider]. A cluster has no images.
func (c *Cluster) Image(context.Context, string, string) (config.Content, error) {
	return config.Content{}, content.ErrAbsent
}

// followAll starts the missing watches of Secrets.
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

				if !r.isKnown {
					r.isKnown = true
					close(r.ready)
					return
				}

				if r.isNamed {
					signal(s.changes)
				}
			},
		)
	}
}

// unfollow records that all watches have ended. The next session determines
// again which Secrets have tokens.
func (s *session) unfollow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.secrets {
		r.stop = nil
		r.hasToken = false
	}
	s.dropUnused()
}
