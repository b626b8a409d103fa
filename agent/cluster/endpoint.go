package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"reflect"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/hint/redact"
)

// endpointTimeout is how long a new address of the API server has to answer. A
// configuration with a wrong address must not block the one that corrects it.
const endpointTimeout = 30 * time.Second

var errNoAuthority = errors.New("the certificate authorities of the API server are not PEM " +
	"certificates")

// endpoint is the state of a change of the API server's address.
type endpoint struct {
	// generation is the generation from which the address was last read.
	generation string

	// before is the previous Config while the new one, set at the time at, has
	// not answered; nil otherwise.
	before *Config
	at     time.Time
}

// endpointAction is what to do about the API server's address.
type endpointAction string

const (
	endpointKeep   endpointAction = "keep"
	endpointRevert endpointAction = "revert" // The new one does not answer.
	endpointReload endpointAction = "reload" // Another configuration is applied.
)

// next decides what to do about the address.
func (e endpoint) next(w world) endpointAction {
	switch {
	case e.before != nil && !w.now.Before(e.at.Add(endpointTimeout)):
		return endpointRevert
	case w.status.IsApplied() && w.status.Generation != e.generation:
		return endpointReload
	}
	return endpointKeep
}

// answered records that the API server answers at its address.
func (e *endpoint) answered() { e.before = nil }

// revert returns to the previous address if the new one does not answer. The
// new one is tried again if the previous one does not answer either.
func (e *endpoint) revert(w *world, now time.Time, log *zap.Logger) {
	if e.before == nil {
		return
	}

	log.Error("the API server does not answer at its new address: back to the previous one",
		zap.String("server", redact.URLs(e.before.Server)))
	failed := w.config
	w.config = *e.before
	e.before = &failed
	e.at = now
}

// endpointController follows the address of the API server in the applied
// configuration. If the connection changes, a new session begins.
type endpointController struct {
	endpoint *endpoint
	reload   func() (Config, error)
	log      *zap.Logger
}

func (c *endpointController) step(_ context.Context, w *world) (outcome, error) {
	e := c.endpoint
	switch e.next(*w) {
	case endpointRevert:
		e.revert(w, w.now, c.log)
		w.ending = true
		return outcome{}, nil
	case endpointKeep:
		return outcome{}, nil
	}

	if c.reload == nil {
		return outcome{}, nil
	}

	e.generation = w.status.Generation
	config, err := c.reload()
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(config.CA) {
		err = errNoAuthority
	}
	if err != nil {
		c.log.Error("read the address of the API server", zap.Error(err))
		return outcome{}, nil
	}

	before := w.config
	w.config = config
	if reflect.DeepEqual(config.connection(), before.connection()) {
		return outcome{}, nil
	}

	c.log.Info("the connection to the API server changes", zap.String("server", redact.URLs(config.Server)))
	e.before = &before
	e.at = w.now
	w.ending = true
	return outcome{}, nil
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
