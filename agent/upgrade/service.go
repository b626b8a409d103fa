package upgrade

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/agent/window"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/repository"
)

const (
	// pollInterval is how often a trial is judged.
	pollInterval = 2 * time.Second
	// retryMin is the first wait before a bundle that could not be reached is
	// requested again, retryMax the longest.
	retryMin = 10 * time.Second
	retryMax = 10 * time.Minute
	// firstCheck is how long after kernel start the ESP is checked, and checkInterval
	// how often then.
	firstCheck    = 5 * time.Minute
	checkInterval = 24 * time.Hour
)

// Service runs the node's upgrades: one goroutine continues what is under way,
// and handles requests.
type Service struct {
	Upgrader *Upgrader
	Machine  Machine
	Releases Releases
	Policy   Policy

	// Hostname is the name of the node that a permit may be for.
	Hostname string

	// Turns says when the machine may restart with another system; nil for any
	// time.
	Turns Turns

	// Trial judges the system that runs, if it is on trial.
	Trial *Trial
	Log   *zap.Logger

	asked   chan request
	changed chan struct{}
	mu      sync.Mutex
	state   status.Upgrade

	// waiting gets the answer when the version of its request, wanted, is ready.
	// Only Run's goroutine uses these and abandoned.
	waiting chan<- answer
	wanted  string
	// abandoned says that the operator wants the trial to end.
	abandoned bool
	// notBegun is the request that a request to cancel ended before it was an
	// upgrade, nil if there is none. Only Run's goroutine uses it.
	notBegun *Request

	// steps are interrupted by requests to cancel.
	steps interrupter

	// nextCheck is when the ESP is checked, in time from kernel start. Only Run's
	// goroutine uses it.
	nextCheck time.Duration
}

// Machine is what the service does to the machine beside its disk.
type Machine interface {
	// Uptime returns the time since kernel start, on CLOCK_MONOTONIC.
	Uptime() time.Duration
	// Proven is called when the running system is no longer on trial.
	Proven()
	// Event tells the cluster what happened.
	Event(warning bool, reason, message string)
	// Reboot restarts the machine; it may return before that.
	Reboot(ctx context.Context) error
}

// Turns keeps machines from restarting with another system all at once.
type Turns interface {
	// Await returns why the machine may not restart with a system yet, "" if it
	// may. The zero System says that the machine is not to restart now.
	Await(s System) (why string)

	// Changed is signalled when the answer may have changed.
	Changed() <-chan struct{}
}

// Policy is what machine.yaml says about upgrades.
type Policy struct {
	// Version is what the node should run, "" for any.
	Version string

	// Mirrors are asked for chunks before the repository: directories and URLs
	// of copies of it, and of nodes that share what they run.
	Mirrors []string

	// Pace is the least time between the starts of two upgrades, unless an
	// operator is in a hurry.
	Pace time.Duration

	// Window is when the machine may restart with another system.
	Window window.Window
}

// Request is what an operator, the cluster or machine.yaml wants.
type Request struct {
	Options

	// Version is "" for the newest.
	Version string

	// Permit is the text of the permit for a release that is older than the
	// running one, nil without. It decides about Options.Downgrade.
	Permit []byte

	// Plan only checks whether the request would be handled.
	Plan bool

	// Rollback is for the system in the other slot.
	Rollback bool

	// Drill is DrillCheck or DrillPanic for a drill, "" if none.
	Drill string

	// Cancel ends the upgrade under way before the machine restarts with it.
	Cancel bool
}

type request struct {
	Request
	answer chan<- answer
}

// answer is the version that is ready, or why it is not.
type answer struct {
	version string
	err     error
	// size is the size of the pack in a plan, in bytes.
	size int64
}

// Planned is what an upgrade would do.
type Planned struct {
	From, To string
	// Size is the most that would be fetched, in bytes; 0 if nothing would.
	Size int64
}

// New completes s, whose exported fields must be set. Run is its goroutine.
func New(s *Service) *Service {
	s.asked = make(chan request)
	s.changed = make(chan struct{}, 1)
	s.state = standing(s.Upgrader.Records, s.Upgrader.Boot.Running, Op{}, nil)
	return s
}

// State returns how the upgrade stands.
func (s *Service) State() *status.Upgrade {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	return &state
}

// Changed is signalled when State changes.
func (s *Service) Changed() <-chan struct{} { return s.changed }

func (s *Service) publish(edit func(u *status.Upgrade)) {
	s.mu.Lock()
	edit(&s.state)
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Handle hands a request to Run. It returns the version when the machine is
// about to restart with it, or why it will not.
func (s *Service) Handle(ctx context.Context, r Request) (version string, err error) {
	a := s.ask(ctx, r)
	return a.version, a.err
}

// Foresee returns what the request would do, or why it would be refused.
func (s *Service) Foresee(ctx context.Context, r Request) (Planned, error) {
	r.Plan = true
	a := s.ask(ctx, r)
	return Planned{s.Upgrader.Boot.Running.Version, a.version, a.size}, a.err
}

func (s *Service) ask(ctx context.Context, r Request) answer {
	if r.Cancel {
		s.steps.interrupt()
	}

	got := make(chan answer, 1)
	select {
	case s.asked <- request{r, got}:
	case <-ctx.Done():
		if r.Cancel {
			s.steps.resume()
		}
		return answer{err: ctx.Err()}
	}
	select {
	case a := <-got:
		return a
	case <-ctx.Done():
		return answer{err: ctx.Err()}
	}
}

// Run continues what is under way, and handles requests, until ctx ends.
func (s *Service) Run(ctx context.Context) {
	s.Upgrader.Listener = listener{s}
	s.nextCheck = firstCheck
	s.report(Op{}, nil) // Filling a slot takes its time.
	op, err := s.step(ctx, Verdict{})
	pause := retryMin
	for ctx.Err() == nil {
		again := s.next(ctx, op, err, pause)
		select {
		case <-ctx.Done():
		case r := <-s.asked:
			if r.Cancel {
				s.steps.resume()
				op, err = s.cancel(ctx, r)
				pause = retryMin
				continue
			}
			if handled, handleErr, begun := s.handle(ctx, r); begun {
				op = handled
				err = handleErr
				pause = retryMin
			}
		case <-s.turnChanged():
			op, err = s.step(ctx, Verdict{})
		case <-again:
			if s.checkIsDue(op, err) {
				s.checkESP()
				continue
			}
			pause = min(2*pause, retryMax)
			if err == nil {
				pause = retryMin
			}
			op, err = s.step(ctx, s.judge(ctx))
		}
	}

	s.handOver() // The other system also gets what was applied since it was armed.
}

// next does what the last step wants beside the disk, and returns when to
// continue; nil waits for a request.
func (s *Service) next(
	ctx context.Context, op Op, err error, pause time.Duration,
) <-chan time.Time {
	switch {
	case s.steps.interrupted():
		return time.After(pollInterval) // Unless the request comes first.
	case err != nil:
		retry := s.Upgrader.Now().Add(pause)
		s.publish(func(u *status.Upgrade) { u.Retry = retry })
		return time.After(pause)
	case op.Kind == Observe:
		return time.After(pollInterval)
	case op.Kind == Reboot && !s.stays():
		if wait := s.untilWindow(); wait > 0 {
			s.awaitTurn(System{})
			return time.After(min(wait, retryMax)) // The clock may be set meanwhile.
		}
		if why := s.untilTurn(); why != "" {
			s.publish(func(u *status.Upgrade) { u.Waits = why })
			return time.After(retryMax) // Unless the turn comes first.
		}
		s.restart(ctx, op)
		return time.After(retryMax) // By then it should be down.
	case op.Kind == Nothing && s.hasWork():
		return time.After(retryMax)
	case op.Kind == Nothing && s.wantsOther():
		got := make(chan answer, 1)
		if _, _, begun := s.handle(ctx, request{Request{Version: s.Policy.Version}, got}); begun {
			return time.After(0)
		}
		s.reportRefusal(<-got)
		return time.After(retryMax)
	case op.Kind == Nothing && s.isIdle():
		return time.After(max(0, s.nextCheck-s.Machine.Uptime()))
	}

	return nil
}

// checkIsDue reports whether nothing is under way, and it is time to check the ESP.
func (s *Service) checkIsDue(op Op, err error) bool {
	return op.Kind == Nothing && err == nil && s.isIdle() &&
		s.Machine.Uptime() >= s.nextCheck
}

// isIdle reports whether no upgrade is under way.
func (s *Service) isIdle() bool {
	j, err := ReadJournal(s.Upgrader.Records)
	return err == nil && j == nil
}

// checkESP checks the ESP, and reports to the cluster and in the status what was
// wrong.
func (s *Service) checkESP() {
	s.nextCheck = s.Machine.Uptime() + checkInterval
	report, err := s.Upgrader.CheckESP()
	if err != nil { // Something else may have been found before.
		report.Left = append(report.Left,
			"the EFI system partition cannot be checked: "+hint.Line(err))
	}

	for _, what := range report.Repaired {
		s.Machine.Event(true, "ESPRepaired", what)
	}
	for _, what := range report.Left {
		s.Log.Error("the ESP is damaged", zap.String("what", what))
		s.Machine.Event(true, "ESPDamaged", what)
	}
	s.publish(func(u *status.Upgrade) { u.Damage = report.Left })
}

// step does what is next, reports how that went, and answers the request that
// waits for it.
func (s *Service) step(ctx context.Context, v Verdict) (Op, error) {
	running, done := s.steps.begin(ctx)
	defer done()

	release := underWay{s.Upgrader.Records, s.Releases.Ref}
	op, err := s.Upgrader.Run(running, v, fill.Open(release, s.Policy.Mirrors, s.Log))
	if running.Err() != nil {
		return op, running.Err()
	}

	err = release.named(err)
	if err != nil {
		s.Log.Error("upgrade", zap.Error(err))
	}

	s.report(op, err)
	if err == nil && op.Kind == Nothing && s.waiting != nil {
		err = ErrDamaged
		if op.Reason != "" {
			err = errors.New(op.Reason)
		}
	}

	if s.waiting != nil && !errors.Is(err, fill.ErrUnreachable) {
		s.waiting <- answer{version: s.wanted, err: err}
		s.waiting = nil
	}

	return op, err
}

func (s *Service) judge(ctx context.Context) Verdict {
	if s.abandoned {
		return Verdict{Word: Bad, Reason: RolledBack}
	}
	return s.Trial.Judge(s.Upgrader.Node.Health(ctx), s.Machine.Uptime())
}

func (s *Service) hasWork() bool {
	j, err := ReadJournal(s.Upgrader.Records)
	return err == nil && j != nil && !s.stays()
}

// stays reports whether the restart into the target is left to the operator.
// The restart out of it never is.
func (s *Service) stays() bool {
	j, err := ReadJournal(s.Upgrader.Records)
	return err == nil && j != nil && j.Stay && j.From == s.Upgrader.Boot.Running
}

// Opens returns when an upgrade that is ready may restart the machine, the zero
// time for at once.
func (s *Service) Opens(w Options) time.Time {
	now := s.Upgrader.Now().UTC()
	if opens := s.Policy.Window.Opens(now); opens.After(now) && !w.AtOnce {
		return opens
	}
	return time.Time{}
}

// untilWindow returns how long the restart has to wait for the window, and
// publishes that it waits.
func (s *Service) untilWindow() time.Duration {
	j, err := ReadJournal(s.Upgrader.Records)
	if err != nil || j == nil || j.From != s.Upgrader.Boot.Running {
		return 0
	}

	opens := s.Opens(Options{AtOnce: j.AtOnce})
	if opens.IsZero() {
		return 0
	}

	s.publish(func(u *status.Upgrade) {
		u.Waits = opens.Format("restarts on Mon at 15:04 MST")
		u.Restarts = opens
	})
	return opens.Sub(s.Upgrader.Now())
}

// untilTurn returns why the restart has to wait for others, "" if it need not.
// Neither a restart out of the target waits, nor what an operator wants at once.
func (s *Service) untilTurn() string {
	j, err := ReadJournal(s.Upgrader.Records)
	if err != nil || j == nil || j.From != s.Upgrader.Boot.Running || j.AtOnce || j.Drill != nil {
		return ""
	}
	return s.awaitTurn(j.Target)
}

func (s *Service) awaitTurn(target System) string {
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

// wantsOther reports whether machine.yaml names another version than the
// running one.
func (s *Service) wantsOther() bool {
	return s.Policy.Version != "" && s.Policy.Version != s.Upgrader.Boot.Running.Version
}

// final are the refusals that do not go away by themselves.
var final = []fault.Code{
	fault.AlreadyRunning,
	fault.WrongArchitecture,
	fault.WrongImage,
	fault.NameTooLong,
	fault.LabelTooLong,
	fault.SlotTooSmall,
	fault.StateFull,
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
func (s *Service) reportRefusal(a answer) {
	if a.err == nil {
		return
	}

	if slices.Contains(final, fault.Of(a.err)) {
		s.Policy.Version = ""
	}

	s.Log.Warn("machine.yaml asks for a version", zap.Error(a.err))
	s.publish(func(u *status.Upgrade) {
		u.Problem = "machine.yaml, upgrade.version: " + hint.Line(a.err)
	})
}

// handle begins what is requested, if nothing is against it. The request is
// answered when the version is ready, or cannot be.
func (s *Service) handle(ctx context.Context, r request) (op Op, err error, begun bool) {
	version, size, err := s.beginInterruptibly(ctx, r.Request)
	if err != nil || r.Plan {
		r.answer <- answer{version: version, err: err, size: size}
		return Op{}, nil, false
	}

	if s.waiting != nil {
		s.waiting <- answer{version: s.wanted, err: errReplaced}
	}

	s.waiting = r.answer
	s.wanted = version

	s.publish(func(u *status.Upgrade) {
		*u = status.Upgrade{
			From:   s.Upgrader.Boot.Running.Version,
			To:     version,
			Phase:  string(Staging),
			Failed: u.Failed,
			Drill:  u.Drill,
			Other:  u.Other,

			Releases: u.Releases,
			Damage:   u.Damage,
		}
	})

	v := Verdict{}
	if s.abandoned {
		v = s.judge(ctx)
	}

	op, err = s.step(ctx, v)
	return op, err, true
}

// beginInterruptibly begins what is requested. A request to cancel ends it while it
// waits for the repository.
func (s *Service) beginInterruptibly(
	ctx context.Context, r Request,
) (version string, size int64, err error) {
	s.notBegun = nil
	running, done := s.steps.begin(ctx)
	defer done()
	version, size, err = s.begin(running, r)
	if err == nil || running.Err() == nil || ctx.Err() != nil {
		return version, size, err
	}

	s.notBegun = &r
	return "", 0, errCanceled
}

// cancel ends the upgrade under way. Its caller learns that there will be none.
func (s *Service) cancel(ctx context.Context, r request) (Op, error) {
	target, err := s.Upgrader.Cancel()
	if fault.Of(err) == fault.NothingToCancel && s.notBegun != nil {
		target.Version = s.notBegun.Version
		err = nil
	}
	s.notBegun = nil
	if err == nil {
		if s.waiting != nil {
			s.waiting <- answer{version: s.wanted, err: errCanceled}
			s.waiting = nil
		}
		// Until the agent starts again, machine.yaml does not bring it back.
		if s.Policy.Version == target.Version {
			s.Policy.Version = ""
		}
	}

	// Another request to cancel may interrupt this step. The journal has the
	// upgrade, so it goes on.
	op, stepErr := s.step(ctx, Verdict{})
	if err == nil && !errors.Is(stepErr, context.Canceled) {
		err = stepErr
	}
	r.answer <- answer{version: target.Version, err: err}
	return op, stepErr
}

// begin records what is requested, unless it is only a plan.
// size is what it would fetch at most.
func (s *Service) begin(
	ctx context.Context, r Request,
) (version string, size int64, err error) {
	switch {
	case r.Drill != "":
		return s.Upgrader.Boot.Running.Version, 0, s.Upgrader.Drill(r.Drill, r.Plan)
	case r.Rollback:
		version, err = s.rollback(r)
		return version, 0, err
	}

	idx, news, err := s.find(ctx, r)
	if err != nil {
		return "", 0, err
	}

	r.Downgrade, err = permitted(news, r.Permit, idx, s.Hostname)
	if err != nil {
		return "", 0, err
	}

	facts := Facts{Pace: s.Policy.Pace, Last: s.last()}
	if r.Plan {
		_, err := s.Upgrader.Check(idx, r.Options, facts)
		return idx.Version, idx.Pack.Size, err
	}

	return idx.Version, idx.Pack.Size, s.Upgrader.Begin(idx, r.Options, facts)
}

// rollback goes back to the other system. During a trial that ends the trial.
func (s *Service) rollback(r Request) (version string, err error) {
	if j, err := ReadJournal(s.Upgrader.Records); err == nil && j != nil &&
		j.Target == s.Upgrader.Boot.Running && j.Drill == nil && !r.Stay {
		s.abandoned = s.abandoned || !r.Plan
		return j.From.Version, nil
	}
	target, err := s.Upgrader.Rollback(r.Options, r.Plan)
	return target.Version, err
}

// ErrDamaged says that the system in the other slot does not verify.
var ErrDamaged = hint.With(
	fault.With(errors.New("the system in the other slot is damaged"), fault.OtherSlotDamaged),
	"`loam upgrade --to VERSION --downgrade PERMIT` brings it again")

var errReplaced = fault.With(errors.New("another upgrade was requested since"),
	fault.UpgradeReplaced)

var errCanceled = fault.With(errors.New("the upgrade was canceled"), fault.UpgradeCanceled)

// find returns the release that is requested, and what the repository says.
func (s *Service) find(
	ctx context.Context, r Request,
) (idx bundle.Index, news repository.News, err error) {
	releases := s.Releases
	if r.Ref != "" {
		releases.Ref = r.Ref
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

	now := s.Upgrader.Now()
	idx, news, err = releases.find(
		ctx, s.Upgrader.Boot.ImageID, s.Upgrader.Disk.Arch, r.Version, now,
	)
	if news.Time.After(now) {
		s.Log.Warn("the clock is behind: expiries go by what is proven",
			zap.Time("clock", now.UTC()), zap.Time("proven", news.Time.UTC()))
	}

	if len(news.Releases) > 0 {
		s.publish(func(u *status.Upgrade) { u.Releases = versionsOf(news.Releases) })
	}
	return idx, news, err
}

// last returns when the last upgrade began, the zero time if that is not known.
func (s *Service) last() (at time.Time) {
	_ = records.Load(s.Upgrader.Records, lastName, &at) // The zero time, then.
	return at
}

// report publishes how the upgrade stands after a step.
func (s *Service) report(op Op, err error) {
	state := standing(s.Upgrader.Records, s.Upgrader.Boot.Running, op, err)
	state.Other = s.Upgrader.Disk.other(s.Upgrader.Boot)
	if state.Phase == "trial" {
		state.Deadline = status.Duration(s.Trial.Limit)
	}

	s.publish(func(u *status.Upgrade) {
		state.Releases = u.Releases
		state.Damage = u.Damage
		*u = state
	})
}

// restart restarts the machine. The other system starts with the current
// configuration.
func (s *Service) restart(ctx context.Context, op Op) {
	s.Log.Warn("restarting the machine", zap.String("reason", op.Reason))
	s.handOver()
	if err := s.Upgrader.writers().journal.renewBaseline(ctx, s.Upgrader.Node); err != nil {
		s.Log.Error("look at the node once more", zap.Error(err))
	}
	if err := s.Machine.Reboot(ctx); err != nil {
		s.Log.Error("restart", zap.Error(err))
		s.publish(func(u *status.Upgrade) {
			u.Problem = "restart the machine: " + hint.Line(err)
		})
	}
}

// handOver hands the configuration over once more, as arming did.
func (s *Service) handOver() {
	j, err := s.Upgrader.writers().journal.armed()
	if err != nil || j == nil {
		return
	}
	if err := s.Upgrader.Node.HandOver(j.Target.Version, j.Rollback); err != nil {
		s.Log.Error("hand the configuration to the other system", zap.Error(err))
	}
}
