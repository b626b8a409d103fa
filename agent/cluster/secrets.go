package cluster

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	core "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/osc"
)

// reference is a Secret that the configuration refers to.
type reference struct {
	// data is what it has, nil if there is none; valid once known is closed.
	data  map[string][]byte
	known chan struct{}
	isIt  bool
	// stop ends its watch; nil while there is no session.
	stop context.CancelFunc
}

// patience is how long a Secret is waited for that was never seen.
const patience = 5 * time.Second

// Follow has the Secrets watched that are referred to, and no others.
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
		if !named[name] {
			if r.stop != nil {
				r.stop()
			}
			delete(c.secrets, name)
		}
	}
	for name := range named {
		if c.secrets[name] == nil {
			c.secrets[name] = &reference{known: make(chan struct{})}
		}
	}
	signal(c.followed)
}

// Secret is of content.Provider: what the Secret of namespace kube-system has
// under key. One that is followed is what it is now.
func (c *Cluster) Secret(ctx context.Context, name, key string) (config.Content, error) {
	c.mu.Lock()
	r := c.secrets[name]
	c.mu.Unlock()
	if r == nil {
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
		observe(watching, s, byName(s.api.core, "secrets", namespace, name), &core.Secret{}, func(secret *core.Secret, ok bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if r.data = nil; ok {
				r.data = secret.Data
			}
			if !r.isIt {
				r.isIt = true
				close(r.known)
				return
			}
			signal(s.changes)
		})
	}
}

// unfollow notes that nothing is watched any more.
func (s *session) unfollow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.secrets {
		r.stop = nil
	}
}

// watchToken keeps the token of a Secret in a file. A Secret that goes leaves
// the file as it is: what uses it may still be let in.
func (s *session) watchToken(ctx context.Context, t Token) {
	observe(ctx, s, byName(s.api.core, "secrets", namespace, t.Secret), &core.Secret{}, func(secret *core.Secret, ok bool) {
		err := errors.New("no such Secret")
		if ok {
			err = s.writeToken(t, secret.Data["token"])
		}
		if err != nil {
			s.Log.Error("keep a token", zap.String("secret", t.Secret), zap.String("path", t.Path), zap.Error(err))
		}
	})
}

func (s *session) writeToken(t Token, token []byte) error {
	if len(token) == 0 {
		return errors.New("the Secret has no token")
	}
	name := strings.TrimPrefix(t.Path, "/")
	dir := s.keep().dir
	if err := dir.MkdirAll(path.Dir(name)); err != nil {
		return err
	}
	_, err := dir.WriteFile(name, token, 0o640)
	return err
}
