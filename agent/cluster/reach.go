package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"reflect"
	"time"

	"go.uber.org/zap"
)

// reach is how the cluster is reached, which a configuration may change.
type reach struct {
	// generation is the one that was applied when it was last read.
	generation string

	// before is how it was reached before a change that has not answered yet,
	// made then; nil for none.
	before *Config
	at     time.Time
}

// reachLimit is how long another way to the API server has to answer: a
// configuration with a mistake in it must not keep away the one that mends it.
const reachLimit = 30 * time.Second

var errNoAuthority = errors.New("the certificate authorities of the API server are no PEM " +
	"certificates")

// reload reads how the cluster is reached once a configuration is applied, and
// begins a new session if that is another way.
func (s *session) reload(context.Context) error {
	r := &s.Cluster.reach
	if r.before != nil && !s.Now().Before(r.at.Add(reachLimit)) {
		s.goBack()
		s.over = true
		return nil
	}

	if s.Reload == nil || !s.status.IsApplied() || s.status.Generation == r.generation {
		return nil
	}

	r.generation = s.status.Generation
	config, err := s.Reload()
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(config.CA) {
		err = errNoAuthority
	}

	switch {
	case err != nil:
		s.Log.Error("read how the cluster is reached", zap.Error(err))
	case reflect.DeepEqual(config.way(), s.way()):
		s.use(config)
	default:
		s.Log.Info("the cluster is reached another way", zap.String("server", config.Server))
		before := s.Config
		r.before, r.at, s.over = &before, s.Now(), true
		s.use(config)
	}

	return nil
}

// way is what of c needs another session if it changes.
func (c Config) way() Config {
	return Config{
		Server:     c.Server,
		CA:         c.CA,
		SecretName: c.SecretName,
		Machine:    c.Machine,
		Hostname:   c.Hostname,
	}
}

// goBack is for a way that does not lead to the API server: the one before is
// tried and, should that not lead there either, this one again.
func (c *Cluster) goBack() {
	if c.reach.before == nil {
		return
	}

	c.Log.Error("the API server does not answer that way: back to the one before",
		zap.String("server", c.reach.before.Server))
	config := *c.reach.before
	this := c.Config
	c.reach.before = &this
	c.reach.at = c.Now()
	c.use(config)
}

func (c *Cluster) use(config Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Config = config
	c.link.Server = config.Server
}
