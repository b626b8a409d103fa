package upgrade

import (
	"errors"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/hint"
)

// standing returns how the upgrade stands after a step: what the records say,
// and what the step waits for.
func standing(s records.Store, running System, op Op, err error) status.Upgrade {
	j, journalErr := ReadJournal(s)
	failed, failedErr := Failures(s)
	last, drillErr := LastDrill(s)

	u := status.Upgrade{Failed: failed, Drill: last}
	switch {
	case j != nil:
		u.Phase = phase(*j, running)
		u.From = j.From.Version
		u.To = j.Target.Version
		u.Target = j.Target.RootHash
		u.Waits = op.Reason
	case op.Kind == Observe:
		u.Phase = "trial"
		u.To = running.Version
		u.Target = running.RootHash
		u.Waits = op.Reason
	}

	if err := errors.Join(err, journalErr, failedErr, drillErr); err != nil {
		u.Problem = hint.Line(err)
	}
	return u
}

// phase returns the word of the status for the phase of an upgrade.
func phase(j Journal, running System) string {
	switch {
	case j.Drill != nil:
		return "drill"
	case j.Target == running:
		return "trial"
	}
	return string(j.Phase)
}
