package local

import (
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/clock"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
)

// certificates issues the certificates of a node, and logs which.
type certificates struct {
	store plane.Store

	// node is the host name.
	node string

	// built and now are Built and Now of [Config].
	built time.Time
	now   func() time.Time

	log *zap.Logger
}

// renew issues the certificates that are due.
func (c certificates) renew(r plane.Record) error {
	renewed, err := c.store.Renew(r, c.node, c.times())
	c.logRenewed(renewed)
	return err
}

// desired issues the certificates that are due, and returns the configuration that
// refers to them.
func (c certificates) desired(r plane.Record, member plane.Member) (config.Desired, error) {
	desired, renewed, err := c.store.Desired(r, member, c.times())
	c.logRenewed(renewed)
	return desired, err
}

func (c certificates) times() pki.Times {
	return pki.Times{Built: c.built, Now: clock.Credible(c.now(), c.built)}
}

func (c certificates) logRenewed(renewed []pki.Renewal) {
	for _, one := range renewed {
		c.log.Info("issued a certificate",
			zap.String("certificate", one.Leaf.Name), zap.String("why", one.Why))
	}
}
