package service

import (
	"errors"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/hint"
)

// report publishes how the upgrade stands after a step.
func (r *runner) report() {
	state := statusOf(r.Upgrader, r.op, r.err)
	state.Other = r.Upgrader.Other()
	state.Held = r.Policy.Hold
	if state.Phase == "trial" {
		state.Deadline = status.Duration(r.Trial.Limit)
	}

	r.publish(func(u *status.Upgrade) {
		state.Releases = u.Releases
		state.Damage = u.Damage
		state.TableDamage = u.TableDamage
		*u = state
	})
}

// statusOf returns how the upgrade stands after a step: what the records say,
// and what the step waits for.
func statusOf(u *upgrade.Upgrader, op upgrade.Op, err error) status.Upgrade {
	running := u.Boot.Running
	j, journalErr := upgrade.ReadJournal(u.Records)
	failed, failedErr := upgrade.Failures(u.Records)
	last, drillErr := upgrade.LastDrill(u.Records)

	s := status.Upgrade{Failed: failed, Drill: last}
	switch {
	case j != nil:
		s.Phase = phase(*j, running)
		s.From = j.From.Version
		s.To = j.Target.Version
		s.Target = j.Target.RootHash
		s.Waits = op.Reason
	case op.Kind == upgrade.Observe:
		s.Phase = "trial"
		s.To = running.Version
		s.Target = running.RootHash
		s.Waits = op.Reason
	}

	if err := errors.Join(err, journalErr, failedErr, drillErr); err != nil {
		s.Problem = hint.Line(err)
	}
	return s
}

// phase returns the word of the status for the phase of an upgrade.
func phase(j upgrade.Journal, running upgrade.System) string {
	switch {
	case j.Drill != nil:
		return "drill"
	case j.Target == running:
		return "trial"
	}
	return string(j.Phase)
}
