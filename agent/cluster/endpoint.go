package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"reflect"
	"time"

	"go.uber.org/zap"
)

// endpoint is the state of a change of the API server's address.
type endpoint struct {
	// generation is the generation from which Config was last read.
	generation string

	// before is the previous Config while the new one, set at the time at, has
	// not answered; nil otherwise.
	before *Config
	at     time.Time
}

// endpointTimeout is how long a new address of the API server has to answer. A
// configuration with a wrong address must not block the one that corrects it.
const endpointTimeout = 30 * time.Second

var errNoAuthority = errors.New("the certificate authorities of the API server are not PEM " +
	"certificates")

// reload reads Config again once a configuration is applied. If the connection
// changes, a new session begins.
func (s *session) reload(context.Context) error {
	r := &s.Cluster.endpoint
	if r.before != nil && !s.Now().Before(r.at.Add(endpointTimeout)) {
		s.revertEndpoint()
		s.finished = true
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
		s.Log.Error("read the address of the API server", zap.Error(err))
	case reflect.DeepEqual(config.connection(), s.connection()):
		s.setConfig(config)
	default:
		s.Log.Info("the connection to the API server changes", zap.String("server", config.Server))
		before := s.Config
		r.before, r.at, s.finished = &before, s.Now(), true
		s.setConfig(config)
	}

	return nil
}

// connection returns the fields of c that need a new session when they change.
func (c Config) connection() Config {
	return Config{
		Server:     c.Server,
		CA:         c.CA,
		SecretName: c.SecretName,
		Machine:    c.Machine,
		Hostname:   c.Hostname,
	}
}

// revertEndpoint returns to the previous address if the new one does not
// answer. The new one is tried again if the previous one does not answer
// either.
func (c *Cluster) revertEndpoint() {
	if c.endpoint.before == nil {
		return
	}

	c.Log.Error("the API server does not answer at its new address: back to the previous one",
		zap.String("server", c.endpoint.before.Server))
	config := *c.endpoint.before
	this := c.Config
	c.endpoint.before = &this
	c.endpoint.at = c.Now()
	c.setConfig(config)
}

func (c *Cluster) setConfig(config Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Config = config
	c.link.Server = config.Server
}
