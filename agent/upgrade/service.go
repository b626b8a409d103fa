package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/image/bundle"
)

const (
	// lookEvery is how often a trial is looked at.
	lookEvery = 2 * time.Second
	// fetchAgain is when a bundle that could not be reached is asked for again, at
	// first and at last.
	fetchAgain, fetchLast = 10 * time.Second, 10 * time.Minute
)

// Service is the node's upgrades: a goroutine that goes on with what is under way,
// and does what it is asked for.
type Service struct {
	Upgrader *Upgrader
	Offers   Offers
	// Want is the version that the node is to run, "" for any.
	Want string
	// Pace is the time between the begins of two upgrades that nobody hurries.
	Pace time.Duration
	// Trial judges the system that runs, if it is on trial.
	Trial *Trial
	// Uptime is the time since kernel start.
	Uptime func() time.Duration
	// Tell tells the cluster's people what happened; nil for nobody.
	Tell func(warning bool, reason, message string)
	// Reboot restarts the machine; it may return before that.
	Reboot func(ctx context.Context) error
	Log    *zap.Logger

	asked   chan request
	changed chan struct{}
	mu      sync.Mutex
	state   status.Upgrade
}

// Request is what somebody asks of the Service.
type Request struct {
	Wish
	// Version is "" for the newest.
	Version string
	// Plan only says whether it would be done.
	Plan bool
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
	s.asked, s.changed = make(chan request), make(chan struct{}, 1)
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

// Ask has the Service bring a system, and returns its version when the machine is
// to restart with it, or why it is not.
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
	s.Upgrader.Progress, s.Upgrader.Done = s.progress, s.tell
	op, err := s.goOn(ctx, Verdict{}, nil)
	pause := fetchAgain
	for ctx.Err() == nil {
		var again <-chan time.Time
		switch {
		case err != nil:
			again = time.After(pause)
			pause = min(2*pause, fetchLast)
		case op.Kind == Observe:
			again = time.After(lookEvery)
		case op.Kind == Nothing && s.wants():
			if op, err = s.bring(ctx, Request{Version: s.Want}); err == nil {
				continue
			}
			again = time.After(pause)
			pause = min(2*pause, fetchLast)
		case op.Kind == Reboot && !s.stays():
			s.restart(ctx, op)
			return
		}
		select {
		case <-ctx.Done():
		case r := <-s.asked:
			op, err = s.grant(ctx, r)
			pause = fetchAgain
		case <-again:
			op, err = s.goOn(ctx, s.judge(ctx), s.pack())
		}
	}
}

// goOn does what is next, and shows how that went.
func (s *Service) goOn(ctx context.Context, v Verdict, pack Packed) (Op, error) {
	op, err := s.Upgrader.Run(ctx, v, pack)
	if ctx.Err() != nil {
		return op, err
	}
	if err != nil {
		s.Log.Error("upgrade", zap.Error(err))
	}
	s.show(op, err)
	return op, err
}

// tell is Upgrader.Done.
func (s *Service) tell(op Op, j Journal) {
	if s.Tell == nil {
		return
	}
	switch op.Kind {
	case Remember:
		s.Tell(true, "UpgradeFailed", fmt.Sprintf("version %s did not stay, %s runs again: %s", j.Target.Version, j.From.Version, op.Reason))
	case Finish:
		if j.Target == s.Upgrader.Running {
			s.Tell(false, "Upgraded", fmt.Sprintf("version %s has taken the place of %s", j.Target.Version, j.From.Version))
		}
	}
}

func (s *Service) judge(ctx context.Context) Verdict {
	return s.Trial.Judge(s.Upgrader.Health(ctx), s.Uptime())
}

// pack is where the upgrade under way gets its chunks, nil for nowhere.
func (s *Service) pack() Packed {
	idx, err := index(s.Upgrader.Keep)
	if err != nil {
		return nil
	}
	offers := s.Offers
	if j, err := ReadJournal(s.Upgrader.Keep); err == nil && j != nil && j.Ref != "" {
		offers.Ref = j.Ref
	}
	p, err := offers.pack(idx)
	if err != nil {
		return nil
	}
	return p
}

// stays reports whether the restart into the target is somebody else's; the one out
// of it never is.
func (s *Service) stays() bool {
	j, err := ReadJournal(s.Upgrader.Keep)
	return err == nil && j != nil && j.Stay && j.From == s.Upgrader.Running
}

// wants reports whether the node is to run another version than it does, and that is
// not under way.
func (s *Service) wants() bool {
	j, err := ReadJournal(s.Upgrader.Keep)
	return err == nil && j == nil && s.Want != "" && s.Want != s.Upgrader.Running.Version
}

// bring does what machine.yaml asks for. What is refused is so until somebody changes
// something, and is shown.
func (s *Service) bring(ctx context.Context, r Request) (Op, error) {
	got := make(chan answer, 1)
	op, err := s.grant(ctx, request{r, got})
	a := <-got
	if refusal, is := errors.AsType[*Refusal](a.err); is {
		s.Log.Warn("machine.yaml asks for a version", zap.String("version", r.Version), zap.String("refused", refusal.Code))
		s.Want = ""
	}
	if a.err != nil {
		s.publish(func(u *status.Upgrade) {
			u.Problem = fmt.Sprintf("machine.yaml, upgrade.version %s: %v", r.Version, a.err)
		})
	}
	return op, cmp.Or(err, a.err)
}

// grant does what somebody asks for.
func (s *Service) grant(ctx context.Context, r request) (Op, error) {
	idx, pack, err := s.look(ctx, r.Request)
	facts := Facts{Pace: s.Pace, Last: s.last()}
	switch {
	case err != nil:
	case r.Plan:
		err = s.Upgrader.Check(idx, r.Wish, facts)
	default:
		err = s.Upgrader.Begin(idx, r.Wish, facts)
	}
	if err != nil || r.Plan {
		r.answer <- answer{idx.Version, err}
		return Op{}, nil
	}
	s.publish(func(u *status.Upgrade) {
		u.From, u.To, u.Phase = s.Upgrader.Running.Version, idx.Version, string(Staging)
	})
	op, err := s.goOn(ctx, Verdict{}, pack)
	r.answer <- answer{idx.Version, err}
	return op, err
}

// look is the system that is asked for, and where its chunks are.
func (s *Service) look(ctx context.Context, r Request) (bundle.Index, Packed, error) {
	offers := s.Offers
	if r.Ref != "" {
		offers.Ref = r.Ref
	}
	switch {
	case offers.Ref == "":
		return bundle.Index{}, nil, errors.New("this node knows no repository\nhint: machine.yaml upgrade.repository, or --from")
	case len(offers.Root) == 0:
		return bundle.Index{}, nil, errors.New("this node trusts nobody's updates\nhint: machine.yaml upgrade.root has the root.json of the repository")
	}
	return offers.find(ctx, s.Upgrader.ImageID, s.Upgrader.Disk.Arch, r.Version, s.Upgrader.Now())
}

// last is when the last upgrade began.
func (s *Service) last() time.Time {
	var at time.Time
	if failed, err := Failures(s.Upgrader.Keep); err == nil {
		for _, f := range failed {
			if f.At.After(at) {
				at = f.At
			}
		}
	}
	return at
}

func (s *Service) progress(p Progress) {
	s.publish(func(u *status.Upgrade) {
		u.Part, u.Size, u.Done = p.Part, p.Size, p.Kept+p.Local+p.Written
		u.Fetched = p.Fetched
	})
}

// show publishes how the upgrade stands after op.
func (s *Service) show(op Op, err error) {
	j, journalErr := ReadJournal(s.Upgrader.Keep)
	failed, failedErr := Failures(s.Upgrader.Keep)
	s.publish(func(u *status.Upgrade) {
		*u = status.Upgrade{}
		if j != nil {
			u.Phase, u.From, u.To = string(j.Phase), j.From.Version, j.Target.Version
			if j.Target == s.Upgrader.Running {
				u.Phase = "trial"
			}
			u.Waits = op.Reason
		} else if op.Kind == Observe {
			u.Phase, u.To, u.Waits = "trial", s.Upgrader.Running.Version, op.Reason
		}
		if err := errors.Join(err, journalErr, failedErr); err != nil {
			u.Problem = err.Error()
		}
		for _, f := range failed {
			u.Failed = append(u.Failed, status.FailedSystem{Version: f.Version, RootHash: f.RootHash, Reason: f.Reason, Evidence: f.Evidence, At: f.At})
		}
	})
}

func (s *Service) restart(ctx context.Context, op Op) {
	s.Log.Warn("restarting the machine", zap.String("reason", op.Reason))
	if err := s.Reboot(ctx); err != nil {
		s.Log.Error("restart", zap.Error(err))
		s.publish(func(u *status.Upgrade) { u.Problem = fmt.Sprintf("restart the machine: %v", err) })
	}
}
