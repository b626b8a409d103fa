package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/unitfile"
	"github.com/loam-os/loam/hint/fault"
)

// Pending is a change that has not proven itself, or is not confirmed.
type Pending struct {
	generation.Journal

	// Watched is set when the change is complete and only its verdict is
	// missing.
	Watched bool
}

// trial says whether the change under way stays.
type trial struct {
	store   *generation.Store
	changes changes
	watched *watched
	systemd Observer
	probes  probes
	bootID  string
	uptime  func() time.Duration
}

// pending implements [Executor.Pending].
func (t trial) pending() (Pending, bool, error) {
	j, ok, err := t.store.Journal()
	return Pending{Journal: j, Watched: t.watched.gate != nil}, ok, err
}

// judge implements [Executor.Judge].
func (t trial) judge(ctx context.Context) (health.Verdict, error) {
	if t.watched.gate == nil {
		return health.Verdict{}, nil
	}

	var names []string
	for _, u := range t.watched.gate.Want.Units {
		if !unitfile.IsTemplate(u.Name) {
			names = append(names, u.Name)
		}
	}

	states, err := t.systemd.Show(ctx, names)
	if err != nil {
		return health.Verdict{}, fmt.Errorf("observe units: %w", err)
	}

	answers := t.probes.ask(ctx, t.watched.gate.Asks(states))
	v := t.watched.gate.Judge(states, answers, t.uptime())
	j, _, err := t.store.Journal()
	if err != nil || j.Try == nil || v.Word == health.Bad {
		return v, err
	}

	return t.judgeTry(j, v), nil
}

// judgeTry returns the verdict on a change that is not confirmed yet.
func (t trial) judgeTry(j generation.Journal, v health.Verdict) health.Verdict {
	try := *j.Try
	uptime := t.uptime()
	if j.BootID != t.bootID || !j.OnClockOf(uptime) || uptime >= try.Deadline {
		return health.Verdict{Word: health.Bad, Reason: "it was not confirmed in time"}
	}

	if v.Word == health.Good {
		return health.Verdict{
			Word:   health.Confirm,
			Reason: "it is well and waits to be confirmed",
			Next:   try.Deadline,
		}
	}

	v.Next = min(v.Next, try.Deadline)
	return v
}

// conclude implements [Executor.Conclude].
func (t trial) conclude(ctx context.Context, v health.Verdict) (generation.Manifest, error) {
	j, ok, err := t.store.Journal()
	if err != nil || !ok {
		return generation.Manifest{}, err
	}

	switch v.Word {
	case health.Good:
		return t.changes.accept(j, v.Reason)
	case health.Bad:
		m, err := t.changes.revert(ctx, j, v)
		if err != nil {
			return m, err
		}
		return m, unfinished(t.changes.prune())
	}

	return generation.Manifest{}, fault.With(
		fmt.Errorf("conclude generation %s: no verdict", j.To), fault.NothingOnTrial)
}

// ErrNothingToConfirm means that no change waits to be confirmed.
var ErrNothingToConfirm = fault.With(
	errors.New("no change waits to be confirmed"), fault.NothingOnTrial)

// confirm implements [Executor.Confirm].
func (t trial) confirm() (generation.Manifest, error) {
	j, ok, err := t.store.Journal()
	if err != nil {
		return generation.Manifest{}, err
	}
	if !ok || j.Try == nil {
		return generation.Manifest{}, ErrNothingToConfirm
	}

	j.Try = nil
	if err := t.store.WriteJournal(j); err != nil {
		return generation.Manifest{}, err
	}

	return t.store.Load(j.To)
}
