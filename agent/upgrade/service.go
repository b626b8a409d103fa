package upgrade

import (
	"context"
	"errors"
	"fmt"
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

	// interrupt ends the step that runs; canceling counts the requests to cancel
	// that Run has not got yet, before which no step runs. mu guards both.
	interrupt context.CancelFunc
	canceling int
}

// Machine is what the service does to the machine beside its disk.
type Machine interface {
	// Uptime returns the time since kernel start.
	Uptime() time.Duration
	// Proven is called when the running system is no longer on trial.
	Proven()
	// Event tells the cluster what happened.
	Event(warning bool, reason, message string)
	// Reboot restarts the machine; it may return before that.
	Reboot(ctx context.Context) error
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

	// Drill is DrillCheck or DrillPanic for a drill, "" for none.
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

// Handle hands a request to Run. It returns the version when the machine is about
// to restart with it, or why it will not.
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
		s.beginCancel()
	}

	got := make(chan answer, 1)
	select {
	case s.asked <- request{r, got}:
	case <-ctx.Done():
		if r.Cancel {
			s.endCancel()
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

// beginCancel ends the step that runs, and keeps further steps from going on until
// endCancel: Run then has the request.
func (s *Service) beginCancel() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.canceling++
	if s.interrupt != nil {
		s.interrupt()
	}
}

func (s *Service) endCancel() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.canceling--
}

func (s *Service) isCanceling() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.canceling > 0
}

// interruptible returns a context that beginCancel ends.
func (s *Service) interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, s.interrupt = context.WithCancel(ctx)
	if s.canceling > 0 {
		s.interrupt()
	}
	return ctx, s.interrupt
}

// Run continues what is under way, and handles requests, until ctx ends.
func (s *Service) Run(ctx context.Context) {
	s.Upgrader.Listener = listener{s}
	s.report(Op{}, nil) // Filling a slot takes its time.
	op, err := s.step(ctx, Verdict{})
	pause := retryMin
	for ctx.Err() == nil {
		again := s.next(ctx, op, err, pause)
		select {
		case <-ctx.Done():
		case r := <-s.asked:
			if r.Cancel {
				s.endCancel()
				op, err = s.cancel(ctx, r)
				pause = retryMin
				continue
			}
			if handled, handleErr, begun := s.handle(ctx, r); begun {
				op = handled
				err = handleErr
				pause = retryMin
			}
		case <-again:
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
	case s.isCanceling():
		return time.After(pollInterval) // Unless the request comes first.
	case err != nil:
		retry := s.Upgrader.Now().Add(pause)
		s.publish(func(u *status.Upgrade) { u.Retry = retry })
		return time.After(pause)
	case op.Kind == Observe:
		return time.After(pollInterval)
	case op.Kind == Reboot && !s.stays():
		if wait := s.untilWindow(); wait > 0 {
			return time.After(min(wait, retryMax)) // The clock may be set meanwhile.
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
	}

	return nil
}

// step does what is next, reports how that went, and answers the request that
// waits for it.
func (s *Service) step(ctx context.Context, v Verdict) (Op, error) {
	running, done := s.interruptible(ctx)
	defer done()
	op, err := s.Upgrader.Run(running, v, fill.Open(underWay{s}, s.Policy.Mirrors, s.Log))
	if running.Err() != nil {
		return op, running.Err()
	}
	err = s.namePack(err)
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

// namePack adds to an error of a fetch where the release comes from. What is
// damaged there stays so until somebody publishes again.
func (s *Service) namePack(err error) error {
	code := fault.Of(err)
	ref, name, packErr := underWay{s}.Pack()
	if packErr != nil || code != fault.RepositoryDamaged && code != fault.RepositoryUnreachable {
		return err
	}

	err = fmt.Errorf("fetch %s from %s: %w", name, ref, err)
	if code == fault.RepositoryDamaged {
		return hint.With(err, "`loamctl publish` of an intact copy repairs it, then `loam upgrade`; "+
			"what was fetched before is kept")
	}
	return err
}

// underWay implements [fill.Release].
type underWay struct{ s *Service }

// Pack returns where the upgrade under way gets its chunks, wherever its index
// came from.
func (u underWay) Pack() (ref, name string, err error) {
	idx, err := index(u.s.Upgrader.Records)
	if err != nil {
		return "", "", err
	}
	ref = u.s.Releases.Ref
	if j, err := ReadJournal(u.s.Upgrader.Records); err == nil && j != nil && j.Ref != "" {
		ref = j.Ref
	}
	return ref, idx.Pack.Name, nil
}

// listener implements [Listener].
type listener struct{ s *Service }

// Done tells the machine and the cluster about the steps that matter to them.
func (l listener) Done(op Op, j *Journal) {
	running := l.s.Upgrader.Boot.Running
	finished := op.Kind == Finish && j != nil && j.Target == running
	if finished {
		l.s.Machine.Proven()
	}

	switch {
	case op.Kind == Restore:
		l.s.Machine.Event(true, "BootEntryRestored", fmt.Sprintf(
			"the boot entry of %s was gone, and is made again from the recovery entry",
			running.Version))
	case j == nil || j.Drill != nil:
	case op.Kind == Remember:
		l.s.Machine.Event(true, "UpgradeFailed", fmt.Sprintf(
			"version %s did not stay, %s runs again: %s",
			j.Target.Version, j.From.Version, op.Reason))
	case op.Kind == Finish && j.Canceled && j.From == running:
		l.s.Machine.Event(false, "UpgradeCanceled", fmt.Sprintf(
			"the upgrade to version %s was canceled, %s stays", j.Target.Version, j.From.Version))
	case finished:
		l.s.Machine.Event(false, "Upgraded", fmt.Sprintf(
			"version %s has taken the place of %s", j.Target.Version, j.From.Version))
	}
}

// Progress publishes how far a fill is.
func (l listener) Progress(p Progress) {
	l.s.publish(func(u *status.Upgrade) {
		u.Part = p.Part
		u.Size = p.Size
		u.Done = p.Kept + p.Written
		u.Fetched = p.Fetched
		u.Retry = time.Time{} // This is the retry.
		if p.Fetched > 0 {
			u.Problem = "" // The problem of the try before is over.
		}
	})
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
	version, size, err := s.begin(ctx, r.Request)
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
		}
	})

	v := Verdict{}
	if s.abandoned {
		v = s.judge(ctx)
	}

	op, err = s.step(ctx, v)
	return op, err, true
}

// cancel ends the upgrade under way. Its caller learns that there will be none.
func (s *Service) cancel(ctx context.Context, r request) (Op, error) {
	target, err := s.Upgrader.Cancel()
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

	// What another request to cancel interrupts is in the journal, and goes on.
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
		return idx.Version, idx.Pack.Size, s.Upgrader.Check(idx, r.Options, facts)
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
	idx, news, err = releases.find(ctx, s.Upgrader.Boot.ImageID, s.Upgrader.Disk.Arch, r.Version, now)
	if news.Time.After(now) {
		s.Log.Warn("the clock is behind: expiries go by what is proven",
			zap.Time("clock", now.UTC()), zap.Time("proven", news.Time.UTC()))
	}

	if len(news.Releases) > 0 {
		s.publish(func(u *status.Upgrade) { u.Releases = versionsOf(news.Releases) })
	}
	return idx, news, err
}

// versionsOf returns the versions of some releases.
func versionsOf(releases []repository.Release) []string {
	var versions []string
	for _, r := range releases {
		versions = append(versions, r.Version)
	}
	return versions
}

// last returns when the last upgrade began, the zero time if that is not known.
func (s *Service) last() (at time.Time) {
	_ = records.Load(s.Upgrader.Records, lastName, &at) // The zero time, then.
	return at
}

// report publishes how the upgrade stands after a step.
func (s *Service) report(op Op, err error) {
	j, journalErr := ReadJournal(s.Upgrader.Records)
	failed, failedErr := Failures(s.Upgrader.Records)
	last, drillErr := LastDrill(s.Upgrader.Records)
	other := s.Upgrader.Disk.other(s.Upgrader.Boot)
	s.publish(func(u *status.Upgrade) {
		*u = status.Upgrade{Releases: u.Releases}
		if j != nil {
			u.Phase = string(j.Phase)
			u.From = j.From.Version
			u.To = j.Target.Version

			if j.Target == s.Upgrader.Boot.Running {
				u.Phase = "trial"
			}
			if j.Drill != nil {
				u.Phase = "drill"
			}

			u.Waits = op.Reason
		} else if op.Kind == Observe {
			u.Phase = "trial"
			u.To = s.Upgrader.Boot.Running.Version
			u.Waits = op.Reason
		}
		if u.Phase == "trial" {
			u.Deadline = s.Trial.Limit
		}
		u.Other = other

		if err := errors.Join(err, journalErr, failedErr, drillErr); err != nil {
			u.Problem = hint.Line(err)
		}

		u.Failed = failed
		u.Drill = last
	})
}

// restart restarts the machine. The other system starts with the current
// configuration.
func (s *Service) restart(ctx context.Context, op Op) {
	s.Log.Warn("restarting the machine", zap.String("reason", op.Reason))
	s.handOver()
	if err := s.Upgrader.renewBaseline(ctx); err != nil {
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
	j, err := ReadJournal(s.Upgrader.Records)
	if err != nil || j == nil || j.Phase != Armed || j.From != s.Upgrader.Boot.Running ||
		j.Drill != nil {
		return
	}
	if err := s.Upgrader.Node.HandOver(j.Target.Version, j.Rollback); err != nil {
		s.Log.Error("hand the configuration to the other system", zap.Error(err))
	}
}
