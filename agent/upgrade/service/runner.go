package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

const (
	// firstCheck is how long after kernel start the ESP is checked, and checkInterval
	// how often then.
	firstCheck    = 5 * time.Minute
	checkInterval = 24 * time.Hour
)

// runner takes the steps of upgrades. One goroutine uses it.
type runner struct {
	*Service

	// op is the last step, and err why it failed.
	op  upgrade.Op
	err error
	// pause is [Standing.Pause].
	pause time.Duration

	// version is what machine.yaml asks for: a version, [Newest], or "" for none.
	version string
	// refused is why it was refused the last time, as far as it is for the log.
	refused string

	// waiting gets the answer when the version of its request, wanted, is ready.
	waiting chan<- answer
	wanted  string
	// abandoned says that the operator wants the trial to end.
	abandoned bool
	// notBegun is the request that a request to cancel ended before it was an
	// upgrade, nil if there is none.
	notBegun *Request

	// nextCheck is when the ESP is checked, in time from kernel start.
	nextCheck time.Duration
}

// Run continues what is under way, and handles requests, until ctx ends.
func (s *Service) Run(ctx context.Context) {
	s.Upgrader.Listener = listener{s}
	r := &runner{
		Service:   s,
		pause:     retryMin,
		version:   s.Policy.Version,
		nextCheck: firstCheck,
	}

	if s := r.observe(); s.isHeld() && s.Journal.Phase == upgrade.Staging {
		_ = r.end() // Best effort: it need not be fetched first.
	}
	r.report() // Filling a slot takes its time.
	r.step(ctx, upgrade.Verdict{})
	for ctx.Err() == nil {
		again := r.move(ctx)
		select {
		case <-ctx.Done():
		case asked := <-s.asked:
			r.take(ctx, asked)
		case <-s.turnChanged():
			r.step(ctx, upgrade.Verdict{})
		case <-again:
			r.pause = min(2*r.pause, retryMax)
			if r.err == nil {
				r.pause = retryMin
			}
			r.step(ctx, r.judge(ctx))
		}
	}

	r.handOver() // The other system also gets what was applied since it was armed.
}

// observe returns how the upgrade stands.
func (r *runner) observe() Standing {
	j, err := upgrade.ReadJournal(r.Upgrader.Records)
	return Standing{
		Op:          r.op,
		Failed:      r.err != nil,
		Pause:       r.pause,
		Interrupted: r.steps.interrupted(),
		Running:     r.Upgrader.Boot.Running,
		Journal:     j,
		Unreadable:  err != nil,
		Wanted:      r.version,
		Hold:        r.Policy.Hold,
		Now:         r.Upgrader.Now(),
		Window:      r.Policy.Window,
		Check:       r.nextCheck - r.Machine.Uptime(),
	}
}

// move makes moves until one has to wait, and returns when the next step is taken;
// nil waits for a request.
func (r *runner) move(ctx context.Context) <-chan time.Time {
	for s := r.observe(); ; {
		m := Decide(s)
		r.Machine.RestartDue(m.Due)
		switch m.Kind {
		case CheckESP:
			r.checkESP()
			s = r.observe()
			continue
		case AskTurn:
			s.Turn = Turn{Asked: true, Waits: r.awaitTurn(s.Journal.Target)}
			continue
		case LookAgain:
			s.Looked = true
			s.Withdrawn = r.isWithdrawn(ctx, *s.Journal)
			s.Interrupted = r.steps.interrupted()
			continue
		case Drop:
			r.Log.Warn("the release was withdrawn", zap.String("version", s.Journal.Target.Version))
			r.Machine.Event(true, "ReleaseWithdrawn", fmt.Sprintf(
				"version %s is not in the repository any more, %s stays",
				s.Journal.Target.Version, s.Journal.From.Version))
			r.drop(ctx, errWithdrawn)
			s = r.observe()
			continue
		case EndHeld:
			r.Log.Warn("the system is held", zap.String("version", s.Journal.Target.Version),
				zap.String("reason", s.Hold))
			r.drop(ctx, errHeld(s.Hold))
			s = r.observe()
			continue
		case AwaitWindow:
			r.awaitTurn(upgrade.System{})
		case Restart:
			r.restart(ctx, r.op.Reason)
		case Bring:
			if r.bring(ctx) {
				s = r.observe()
				continue
			}
		case Rest:
			return nil
		}

		r.publishMove(m)
		return time.After(m.After)
	}
}

// publishMove says in the status what the node waits for.
func (r *runner) publishMove(m Move) {
	if m.Retry.IsZero() && m.Waits == "" {
		return
	}
	r.publish(func(u *status.Upgrade) {
		if !m.Retry.IsZero() {
			u.Retry = m.Retry
		}
		if m.Waits != "" {
			u.Waits = m.Waits
			u.Restarts = m.Restarts
		}
	})
}

// awaitTurn returns why the machine does not restart with a system yet, "" if it may.
func (s *Service) awaitTurn(target upgrade.System) string {
	if s.Turns == nil {
		return ""
	}
	return s.Turns.Await(target)
}

// turnChanged is signalled when the machine may have got its turn; nil without
// turns.
func (s *Service) turnChanged() <-chan struct{} {
	if s.Turns == nil {
		return nil
	}
	return s.Turns.Changed()
}

// step does what is next, reports how that went, and answers the request that
// waits for it.
func (r *runner) step(ctx context.Context, v upgrade.Verdict) {
	running, done := r.steps.begin(ctx)
	defer done()

	release := underWay{r.Upgrader.Records, r.Releases.Ref}
	r.op, r.err = r.Upgrader.Run(running, v, fill.Open(release, r.Policy.Mirrors, r.Log))
	if running.Err() != nil {
		r.err = running.Err()
		return
	}

	r.err = release.named(r.err)
	if r.err != nil {
		r.Log.Error("upgrade", zap.Error(r.err))
	}

	r.report()
	if r.err == nil && r.op.Kind == upgrade.Nothing && r.waiting != nil {
		r.err = ErrDamaged
		if r.op.Reason != "" {
			r.err = errors.New(r.op.Reason)
		}
	}

	if !errors.Is(r.err, fill.ErrUnreachable) {
		r.answer(r.err)
	}
}

// answer answers the request that waits, if there is one.
func (r *runner) answer(err error) {
	if r.waiting != nil {
		r.waiting <- answer{version: r.wanted, err: err}
		r.waiting = nil
	}
}

func (r *runner) judge(ctx context.Context) upgrade.Verdict {
	if r.abandoned {
		return upgrade.Verdict{Word: upgrade.Bad, Reason: upgrade.RolledBack}
	}
	return r.Trial.Judge(r.Upgrader.Host.Health(ctx), r.Machine.Uptime())
}

// checkESP checks the ESP, and reports to the cluster and in the status what was
// wrong.
func (r *runner) checkESP() {
	r.nextCheck = r.Machine.Uptime() + checkInterval
	report, err := r.Upgrader.CheckESP()
	if err != nil { // Something else may have been found before.
		report.Left = append(report.Left,
			"the EFI system partition cannot be checked: "+hint.Line(err))
	}

	for _, what := range report.Repaired {
		r.Machine.Event(true, "ESPRepaired", what)
	}
	for _, what := range report.Left {
		r.Log.Error("the ESP is damaged", zap.String("what", what))
		r.Machine.Event(true, "ESPDamaged", what)
	}
	if report.Table != "" {
		r.Log.Error("the partition table is damaged", zap.String("what", report.Table))
		r.Machine.Event(true, "PartitionTableDamaged", report.Table)
	}
	r.publish(func(u *status.Upgrade) {
		u.Damage = report.Left
		u.TableDamage = report.Table
	})
}

// bring begins the upgrade to the version that machine.yaml asks for, and reports
// whether it has.
func (r *runner) bring(ctx context.Context) (begun bool) {
	asked := Request{Version: r.version}
	if r.version == Newest {
		asked.Version = ""
	}
	got := make(chan answer, 1)
	begun = r.handle(ctx, request{asked, got})
	if !begun {
		r.reportRefusal((<-got).err)
	}
	return begun
}

// final are the refusals that do not go away by themselves. Room comes back: the
// kubelet deletes images and logs, and an operator what is not Loam's on the ESP.
var final = []fault.Code{
	fault.AlreadyRunning,
	fault.WrongArchitecture,
	fault.WrongImage,
	fault.NameTooLong,
	fault.LabelTooLong,
	fault.SlotTooSmall,
	fault.DirectoryFull,
	fault.OtherDisk,
	fault.FailedBefore,
	fault.OldEpoch,
	fault.Downgrade,
	fault.UKINotSigned,
	fault.PCRNotSigned,
	fault.NotInDB,
	fault.ForbiddenByDBX,
}

// reportRefusal publishes why the version of machine.yaml is refused. A refusal
// that is final ends the attempts.
func (r *runner) reportRefusal(err error) {
	code := fault.Of(err)
	switch {
	case err == nil:
		return
	case r.version == Newest && (code == fault.AlreadyRunning || code == fault.Downgrade):
		return // It runs the newest, or one that was withdrawn since.
	case r.version != Newest && slices.Contains(final, code):
		r.version = "" // Of the newest, the next release may be another one.
	}

	text := hint.Line(err)
	refused := text
	if code == fault.StateFull || code == fault.ESPFull {
		refused = string(code) // How much is free is another number each time.
	}
	if refused != r.refused {
		r.Log.Warn("machine.yaml asks for a version", zap.Error(err))
	}
	r.refused = refused
	r.publish(func(u *status.Upgrade) {
		if code == fault.ReleaseNotYet {
			u.Waits = err.Error()
			return
		}
		u.Problem = "machine.yaml, upgrade.version: " + text
	})
}

// lookLimit is how long the repository has to say that a release was withdrawn.
const lookLimit = 30 * time.Second

// isWithdrawn asks the repository of the upgrade under way whether it still has the
// release. A repository that does not answer keeps no machine from restarting.
func (s *Service) isWithdrawn(ctx context.Context, j upgrade.Journal) bool {
	releases := s.Releases
	releases.Ref = cmp.Or(j.Ref, releases.Ref)
	if releases.Ref == "" || len(releases.Root) == 0 {
		return false
	}

	running, done := s.steps.begin(ctx)
	defer done()
	limited, cancel := context.WithTimeout(running, lookLimit)
	defer cancel()
	withdrawn, err := releases.isWithdrawn(limited, wants(s.Upgrader, j.Target.Version, true),
		s.Upgrader.Now())
	if err != nil {
		s.Log.Warn("look whether the release was withdrawn", zap.Error(err))
	}
	return withdrawn
}

// drop ends the upgrade for that reason, and lets other machines restart.
func (r *runner) drop(ctx context.Context, why error) {
	r.awaitTurn(upgrade.System{})
	if err := r.end(); err != nil {
		r.err = err
		return
	}
	r.answer(why)
	r.step(ctx, upgrade.Verdict{})
}

// end records that the upgrade ends.
func (s *Service) end() error {
	_, err := s.Upgrader.Cancel()
	if err != nil {
		s.Log.Error("end the upgrade", zap.Error(err))
	}
	return err
}

// restart restarts the machine. The other system starts with the current
// configuration.
func (r *runner) restart(ctx context.Context, reason string) {
	r.Log.Warn("restarting the machine", zap.String("reason", reason))
	r.handOver()
	if err := r.Upgrader.RenewBaseline(ctx); err != nil {
		r.Log.Error("look at the node once more", zap.Error(err))
	}
	if err := r.Upgrader.RepairTable(); err != nil {
		r.Log.Error("repair the partition table", zap.Error(err))
	}
	if err := r.Machine.Reboot(ctx); err != nil {
		r.Log.Error("restart", zap.Error(err))
		r.publish(func(u *status.Upgrade) {
			u.Problem = "restart the machine: " + hint.Line(err)
		})
	}
}

// handOver hands the configuration over once more, as arming did.
func (r *runner) handOver() {
	if err := r.Upgrader.HandOver(); err != nil {
		r.Log.Error("hand the configuration to the other system", zap.Error(err))
	}
}
