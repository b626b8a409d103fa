package cluster

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/inplace"
)

// renewalRetry is the pause before a failed renewal is tried again.
const renewalRetry = time.Minute

// decideRenewal reports whether to request the next certificate, which is due
// at the time at. It waits for a step of an update in place: that may request a
// certificate, too, and the session does not end in the middle of it.
func decideRenewal(w world, at time.Time) bool {
	return !w.renewing && !w.ending && w.updating == inplace.Nothing && !w.now.Before(at)
}

// renewalController requests the next certificate when it is time. The session
// goes on while the request waits for approval, and ends with the answer.
type renewalController struct {
	joiner credentials.Joiner
	who    credentials.Credentials
	jobs   jobs
	log    *zap.Logger

	// at is when to request the certificate.
	at time.Time
}

func (c *renewalController) step(_ context.Context, w *world) (outcome, error) {
	if !decideRenewal(*w, c.at) {
		return outcome{}, nil
	}

	w.renewing = true
	target := w.config.target()
	var next credentials.Credentials

	c.jobs.run(func(ctx context.Context) (err error) {
		next, err = c.joiner.Join(ctx, target, c.who, "")
		return err
	}, func(err error) {
		w.renewing = false
		if err != nil {
			c.log.Error("renew the certificate", zap.Error(err))
			c.at = c.joiner.Now().Add(renewalRetry)
			return
		}
		c.log.Info("renewed the certificate", zap.Time("expires", next.NotAfter))
		w.ending = true
	})

	return outcome{}, nil
}
