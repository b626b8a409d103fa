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
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/repository"
)

const (
	// lookEvery is how often a trial is looked at.
	lookEvery = 2 * time.Second
	// fetchAgain is when a bundle that could not be reached is asked for again,
	// at first and at last.
	fetchAgain, fetchLast = 10 * time.Second, 10 * time.Minute
)

// Service is the node's upgrades: a goroutine that goes on with what is under
// way, and does what it is asked for.
type Service struct {
	Upgrader *Upgrader
	Machine  Machine
	Offers   Offers
	Policy   Policy

	// Hostname is what a permit may be for.
	Hostname string

	// Trial judges the system that runs, if it is on trial.
	Trial *Trial
	Log   *zap.Logger

	asked   chan request
	changed chan struct{}
	mu      sync.Mutex
	state   status.Upgrade

	// waiting is told when what it asked for, wanted, is ready; gone says that
	// the operator wants the trial to be over. All are of Run's goroutine.
	waiting chan<- answer
	wanted  string
	gone    bool
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
	// Version is what the node is to run, "" for any.
	Version string

	// Mirrors are asked for chunks before the repository is: directories and
	// URLs of copies of it, and of nodes that share what they run.
	Mirrors []string

	// Pace is the least time from one upgrade to the next, unless an operator
	// is in a hurry.
	Pace time.Duration

	// Window is when the machine may restart with another system.
	Window window.Window
}

// Request is what somebody asks of the Service.
type Request struct {
	Wish

	// Version is "" for the newest.
	Version string

	// Permit is the text of one for a release that is older than the running
	// one, nil for none: it decides about Wish.Downgrade.
	Permit []byte

	// Plan only says whether it would be done.
	Plan bool

	// Back is to the system in the other slot.
	Back bool

	// Drill is DrillCheck or DrillPanic for a drill, "" for none.
	Drill string
}

type request struct {
	Request
	answer chan<- answer
}

// answer is the version that was brought, or is to be.
type answer struct {
	version string
	err     error
}

// New completes s, whose exported fields are set; Run is its goroutine.
func New(s *Service) *Service {
	s.asked = make(chan request)
	s.changed = make(chan struct{}, 1)
	return s
}

// State is how the upgrade stands, Changed tells when that is another.
func (s *Service) State() *status.Upgrade {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	return &state
}

// Changed tells when State is another.
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

// Ask has the Service bring a system, and returns its version when the machine
// is to restart with it, or why it is not.
func (s *Service) Ask(ctx context.Context, r Request) (version string, err error) {
	got := make(chan answer, 1)
	select {
	case s.asked <- request{r, got}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	select {
	case a := <-got:
		return a.version, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Run goes on with what is under way until ctx ends.
func (s *Service) Run(ctx context.Context) {
	s.Upgrader.Listener = listener{s}
	s.show(Op{}, nil) // Filling a slot takes its time.
	op, err := s.goOn(ctx, Verdict{})
	pause := fetchAgain
	for ctx.Err() == nil {
		again := s.next(ctx, op, err, pause)
		select {
		case <-ctx.Done():
		case r := <-s.asked:
			if granted, grantErr, begun := s.grant(ctx, r); begun {
				op = granted
				err = grantErr
				pause = fetchAgain
			}
		case <-again:
			pause = min(2*pause, fetchLast)
			if err == nil {
				pause = fetchAgain
			}
			op, err = s.goOn(ctx, s.judge(ctx))
		}
	}

	s.carry() // What was applied since it was armed is to be there, too.
}

// next does what the last op asks for beside the disk, and says when to look
// again; nil is when somebody asks for something.
func (s *Service) next(
	ctx context.Context, op Op, err error, pause time.Duration,
) <-chan time.Time {
	switch {
	case err != nil:
		return time.After(pause)
	case op.Kind == Observe:
		return time.After(lookEvery)
	case op.Kind == Reboot && !s.stays():
		if wait := s.waits(); wait > 0 {
			return time.After(min(wait, fetchLast)) // By a clock that may be set.
		}
		s.restart(ctx, op)
		return time.After(fetchLast) // It should be down by then.
	case op.Kind == Nothing && s.goesOn():
		return time.After(fetchLast)
	case op.Kind == Nothing && s.wants():
		got := make(chan answer, 1)
		if _, _, begun := s.grant(ctx, request{Request{Version: s.Policy.Version}, got}); begun {
			return time.After(0)
		}
		s.refused(<-got)
		return time.After(fetchLast)
	}

	return nil
}

// goOn does what is next, shows how that went, and tells those who wait for it.
func (s *Service) goOn(ctx context.Context, v Verdict) (Op, error) {
	op, err := s.Upgrader.Run(ctx, v, fill.Open(underWay{s}, s.Policy.Mirrors, s.Log))
	if ctx.Err() != nil {
		return op, err
	}
	if err != nil {
		s.Log.Error("upgrade", zap.Error(err))
	}

	s.show(op, err)
	if err == nil && op.Kind == Nothing && s.waiting != nil {
		err = ErrDamaged
		if op.Reason != "" {
			err = errors.New(op.Reason)
		}
	}

	if s.waiting != nil && !errors.Is(err, fill.ErrUnreachable) {
		s.waiting <- answer{s.wanted, err}
		s.waiting = nil
	}

	return op, err
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
	ref = u.s.Offers.Ref
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
	})
}

func (s *Service) judge(ctx context.Context) Verdict {
	if s.gone {
		return Verdict{Word: Bad, Reason: goneBack}
	}
	return s.Trial.Judge(s.Upgrader.Node.Health(ctx), s.Machine.Uptime())
}

func (s *Service) goesOn() bool {
	j, err := ReadJournal(s.Upgrader.Records)
	return err == nil && j != nil && !s.stays()
}

// stays reports whether the restart into the target is somebody else's; the one
// out of it never is.
func (s *Service) stays() bool {
	j, err := ReadJournal(s.Upgrader.Records)
	return err == nil && j != nil && j.Stay && j.From == s.Upgrader.Boot.Running
}

// Opens is when a wish that is ready is tried, the zero time for at once.
func (s *Service) Opens(w Wish) time.Time {
	now := s.Upgrader.Now().UTC()
	if opens := s.Policy.Window.Opens(now); opens.After(now) && !w.AtOnce {
		return opens
	}
	return time.Time{}
}

// waits is how long the restart waits for the window, and shows that it does.
func (s *Service) waits() time.Duration {
	j, err := ReadJournal(s.Upgrader.Records)
	if err != nil || j == nil || j.From != s.Upgrader.Boot.Running {
		return 0
	}

	opens := s.Opens(Wish{AtOnce: j.AtOnce})
	if opens.IsZero() {
		return 0
	}

	s.publish(func(u *status.Upgrade) { u.Waits = opens.Format("restarts on Mon at 15:04 MST") })
	return opens.Sub(s.Upgrader.Now())
}

// wants reports whether the node is to run another version than it does.
func (s *Service) wants() bool {
	return s.Policy.Version != "" && s.Policy.Version != s.Upgrader.Boot.Running.Version
}

// passing are the refusals that go away by themselves.
var passing = []string{
	CodePaced,
	CodeUnproven,
	CodeNoEntry,
	CodeESP,
	CodeUnderWay,
	CodeBattery,
}

// refused shows why machine.yaml's version is not brought. What does not pass
// by itself is not asked for again.
func (s *Service) refused(a answer) {
	if a.err == nil {
		return
	}

	refusal, is := errors.AsType[*Refusal](a.err)
	if is && !slices.Contains(passing, refusal.Code) {
		s.Policy.Version = ""
	}

	s.Log.Warn("machine.yaml asks for a version", zap.Error(a.err))
	s.publish(func(u *status.Upgrade) {
		u.Problem = "machine.yaml, upgrade.version: " + a.err.Error()
	})
}

// grant begins what somebody asks for, if nothing is against it. Who asks is
// told when it is ready, or cannot be.
func (s *Service) grant(ctx context.Context, r request) (op Op, err error, begun bool) {
	version, err := s.begin(ctx, r.Request)
	if err != nil || r.Plan {
		r.answer <- answer{version, err}
		return Op{}, nil, false
	}

	if s.waiting != nil {
		s.waiting <- answer{s.wanted, errReplaced}
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
		}
	})

	v := Verdict{}
	if s.gone {
		v = s.judge(ctx)
	}

	op, err = s.goOn(ctx, v)
	return op, err, true
}

// begin notes what is asked for, unless it is only a plan.
func (s *Service) begin(ctx context.Context, r Request) (version string, err error) {
	switch {
	case r.Drill != "":
		return s.Upgrader.Boot.Running.Version, s.Upgrader.Drill(r.Drill, r.Plan)
	case r.Back:
		return s.back(r)
	}

	idx, news, err := s.look(ctx, r)
	if err != nil {
		return "", err
	}

	r.Downgrade, err = permitted(news, r.Permit, idx, s.Hostname)
	if err != nil {
		return "", err
	}

	facts := Facts{Pace: s.Policy.Pace, Last: s.last()}
	if r.Plan {
		return idx.Version, s.Upgrader.Check(idx, r.Wish, facts)
	}

	return idx.Version, s.Upgrader.Begin(idx, r.Wish, facts)
}

// back goes to the other system. From one on trial, that ends the trial.
func (s *Service) back(r Request) (version string, err error) {
	if j, err := ReadJournal(s.Upgrader.Records); err == nil && j != nil &&
		j.Target == s.Upgrader.Boot.Running && j.Drill == nil && !r.Stay {
		s.gone = s.gone || !r.Plan
		return j.From.Version, nil
	}
	target, err := s.Upgrader.Back(r.Wish, r.Plan)
	return target.Version, err
}

// ErrDamaged says that the system in the other slot does not verify.
var ErrDamaged = errors.New("the system in the other slot is damaged\n" +
	"hint: `loam upgrade --to VERSION --downgrade PERMIT` brings it anew")

var errReplaced = errors.New("somebody has asked for another upgrade since")

// look is the system that is asked for, and what the repository says.
func (s *Service) look(
	ctx context.Context, r Request,
) (idx bundle.Index, news repository.News, err error) {
	offers := s.Offers
	if r.Ref != "" {
		offers.Ref = r.Ref
	}

	switch {
	case offers.Ref == "":
		return idx, news, errors.New("this node knows no repository\n" +
			"hint: machine.yaml upgrade.repository, or --from")
	case len(offers.Root) == 0:
		return idx, news, errors.New("this node trusts nobody's updates\n" +
			"hint: machine.yaml upgrade.root has the root.json of the repository")
	}

	now := s.Upgrader.Now()
	idx, news, err = offers.find(ctx, s.Upgrader.Boot.ImageID, s.Upgrader.Disk.Arch, r.Version, now)
	if news.Time.After(now) {
		s.Log.Warn("the clock is behind: expiries go by what is proven",
			zap.Time("clock", now.UTC()), zap.Time("proven", news.Time.UTC()))
	}

	return idx, news, err
}

// last is when the last upgrade began, the zero time if that is not known.
func (s *Service) last() (at time.Time) {
	_ = records.Load(s.Upgrader.Records, lastName, &at) // Which is the zero time, then.
	return at
}

// show publishes how the upgrade stands after op.
func (s *Service) show(op Op, err error) {
	j, journalErr := ReadJournal(s.Upgrader.Records)
	failed, failedErr := Failures(s.Upgrader.Records)
	last, drillErr := LastDrill(s.Upgrader.Records)
	s.publish(func(u *status.Upgrade) {
		*u = status.Upgrade{}
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

		if err := errors.Join(err, journalErr, failedErr, drillErr); err != nil {
			u.Problem = err.Error()
		}

		u.Failed = failed
		u.Drill = last
	})
}

// restart restarts the machine. The other system starts with the configuration
// of now.
func (s *Service) restart(ctx context.Context, op Op) {
	s.Log.Warn("restarting the machine", zap.String("reason", op.Reason))
	s.carry()
	if err := s.Upgrader.renewBaseline(ctx); err != nil {
		s.Log.Error("look at the node once more", zap.Error(err))
	}
	if err := s.Machine.Reboot(ctx); err != nil {
		s.Log.Error("restart", zap.Error(err))
		s.publish(func(u *status.Upgrade) {
			u.Problem = fmt.Sprintf("restart the machine: %v", err)
		})
	}
}

// carry does once more what arming did.
func (s *Service) carry() {
	j, err := ReadJournal(s.Upgrader.Records)
	if err != nil || j == nil || j.Phase != Armed || j.From != s.Upgrader.Boot.Running ||
		j.Drill != nil {
		return
	}
	if err := s.Upgrader.Node.HandOver(j.Target.Version, j.Back); err != nil {
		s.Log.Error("hand the configuration to the other system", zap.Error(err))
	}
}
