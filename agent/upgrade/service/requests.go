package service

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/repository"
)

// ErrDamaged says that the system in the other slot does not verify.
var ErrDamaged = hint.With(
	fault.With(errors.New("the system in the other slot is damaged"), fault.OtherSlotDamaged),
	"`loam upgrade --to VERSION --downgrade PERMIT` brings it again")

var errReplaced = fault.With(errors.New("another upgrade was requested since"),
	fault.UpgradeReplaced)

var errWithdrawn = fault.With(errors.New("the release was withdrawn from the repository"),
	fault.UpgradeCanceled)

var errCanceled = fault.With(errors.New("the upgrade was canceled"), fault.UpgradeCanceled)

// errHeld says that the node keeps its system.
func errHeld(why string) error {
	return hint.With(
		fault.With(fmt.Errorf("machine.yaml holds the system of this node: %s", why),
			fault.UpgradeHeld),
		"`loam upgrade --now` brings another one nevertheless; or take upgrade.hold out of machine.yaml")
}

// isUrgent reports whether an operator has asked for the upgrade at once.
func (r Request) isUrgent() bool { return r.Now && r.AtOnce }

// take handles a request. One that changes something begins the waits for retries
// anew.
func (r *runner) take(ctx context.Context, asked request) {
	if asked.Cancel {
		r.steps.resume()
		r.cancel(ctx, asked)
		r.pause = retryMin
	} else if r.handle(ctx, asked) {
		r.pause = retryMin
	}
}

// handle begins what is requested, if nothing is against it, and reports whether it
// has. The request is answered when the version is ready, or cannot be.
func (r *runner) handle(ctx context.Context, asked request) (begun bool) {
	version, size, err := r.beginInterruptibly(ctx, asked.Request)
	if err != nil || asked.Plan {
		asked.answer <- answer{version: version, err: err, size: size}
		return false
	}

	r.answer(errReplaced)
	r.waiting = asked.answer
	r.wanted = version

	r.publish(func(u *status.Upgrade) {
		*u = status.Upgrade{
			From:   r.Upgrader.Boot.Running.Version,
			To:     version,
			Phase:  string(upgrade.Staging),
			Failed: u.Failed,
			Drill:  u.Drill,
			Other:  u.Other,
			Held:   u.Held,

			Releases:    u.Releases,
			Damage:      u.Damage,
			TableDamage: u.TableDamage,
		}
	})

	v := upgrade.Verdict{}
	if r.abandoned {
		v = r.judge(ctx)
	}
	r.step(ctx, v)
	return true
}

// beginInterruptibly begins what is requested. A request to cancel ends it while it
// waits for the repository.
func (r *runner) beginInterruptibly(
	ctx context.Context, asked Request,
) (version string, size int64, err error) {
	r.notBegun = nil
	running, done := r.steps.begin(ctx)
	defer done()
	version, size, err = r.begin(running, asked)
	if err == nil || running.Err() == nil || ctx.Err() != nil {
		return version, size, err
	}

	r.notBegun = &asked
	return "", 0, errCanceled
}

// cancel ends the upgrade under way. Its caller learns that there will be none.
func (r *runner) cancel(ctx context.Context, asked request) {
	target, err := r.Upgrader.Cancel()
	if fault.Of(err) == fault.NothingToCancel && r.notBegun != nil {
		target.Version = r.notBegun.Version
		err = nil
	}
	r.notBegun = nil
	if err == nil {
		r.answer(errCanceled)
		// Until the agent starts again, machine.yaml does not bring it back.
		if r.version == target.Version {
			r.version = ""
		}
	}

	// Another request to cancel may interrupt this step. The journal has the
	// upgrade, so it goes on.
	r.step(ctx, upgrade.Verdict{})
	if err == nil && !errors.Is(r.err, context.Canceled) {
		err = r.err
	}
	asked.answer <- answer{version: target.Version, err: err}
}

// begin records what is requested, unless it is only a plan.
// size is what it would fetch at most.
func (r *runner) begin(
	ctx context.Context, asked Request,
) (version string, size int64, err error) {
	switch {
	case asked.Drill != "":
		return r.Upgrader.Boot.Running.Version, 0, r.Upgrader.Drill(asked.Drill, asked.Plan)
	case asked.Rollback:
		version, err = r.rollback(asked)
		return version, 0, err
	case r.Policy.Hold != "" && !asked.isUrgent():
		return "", 0, errHeld(r.Policy.Hold)
	}

	idx, news, err := r.find(ctx, asked)
	if err != nil {
		return "", 0, err
	}

	asked.Downgrade, err = upgrade.Permitted(news, asked.Permit, idx, r.Hostname)
	if err != nil {
		return "", 0, err
	}

	facts := upgrade.Facts{Pace: r.Policy.Pace, Last: upgrade.LastBegan(r.Upgrader.Records)}
	if asked.Plan {
		_, err := r.Upgrader.Check(idx, asked.Options, facts)
		return idx.Version, idx.Pack.Size, err
	}

	return idx.Version, idx.Pack.Size, r.Upgrader.Begin(idx, asked.Options, facts)
}

// wants returns what to look for among the releases of a repository.
func wants(u *upgrade.Upgrader, version string, atOnce bool) wanted {
	return wanted{
		imageID: u.Boot.ImageID,
		arch:    u.Disk.Arch,
		version: version,
		running: u.Boot.Running.Version,
		atOnce:  atOnce,
	}
}

// rollback goes back to the other system. During a trial that ends the trial.
func (r *runner) rollback(asked Request) (version string, err error) {
	if j, err := upgrade.ReadJournal(r.Upgrader.Records); err == nil && j != nil &&
		j.Target == r.Upgrader.Boot.Running && j.Drill == nil && !asked.Stay {
		r.abandoned = r.abandoned || !asked.Plan
		return j.From.Version, nil
	}
	target, err := r.Upgrader.Rollback(asked.Options, asked.Plan)
	return target.Version, err
}

// find returns the release that is requested, and what the repository says.
func (r *runner) find(
	ctx context.Context, asked Request,
) (idx bundle.Index, news repository.News, err error) {
	releases := r.Releases
	if asked.Ref != "" {
		releases.Ref = asked.Ref
	}

	switch {
	case releases.Ref == "":
		return idx, news, hint.With(
			fault.With(errors.New("this node knows no repository"), fault.NoRepository),
			"name one with `loam upgrade --from URL`, or for good as upgrade.repository in machine.yaml")
	case len(releases.Root) == 0:
		return idx, news, hint.With(
			fault.With(errors.New("no trusted update keys on this node"), fault.NoTrustedKeys),
			"machine.yaml upgrade.root has the root.json of the repository")
	}

	now := r.Upgrader.Now()
	idx, news, err = releases.find(ctx, wants(r.Upgrader, asked.Version, asked.AtOnce), now)
	if news.Time.After(now) {
		r.Log.Warn("the clock is behind: expiries go by what is proven",
			zap.Time("clock", now.UTC()), zap.Time("proven", news.Time.UTC()))
	}

	if len(news.Releases) > 0 {
		r.publish(func(u *status.Upgrade) { u.Releases = versionsOf(news.Releases) })
	}
	return idx, news, err
}
