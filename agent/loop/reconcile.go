package loop

import (
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// afterRead makes the node what its source says, or what a caller asks for. The
// document of a caller is not the source's.
func afterRead(s State, step Step, r Result, _ time.Duration) (State, []Effect) {
	if step.Request != nil {
		return reconcileFor(s, step.Request, r)
	}

	s = s.read(r)
	switch {
	case errors.Is(r.Err, source.ErrAbsent):
		return s, []Effect{
			info("no configuration at the source: the node keeps what it has", zap.Error(r.Err)),
			Show{},
		}
	case errors.Is(r.Err, source.ErrFetching):
		// The source notifies when it is there.
		return s, []Effect{SetAlarm{Which: readAlarm, In: retryDelay}, Show{}}
	case r.Err != nil:
		return s, append(reportUnreadable(s, r.Err), Show{})
	}
	return reconcile(s, r)
}

// read returns the state with what the source says. Without a document, or with a
// wrong one, the node does not change.
func (s State) read(r Result) State {
	s.Faults = s.Faults.accepted()
	s.Facts.Missing = ""
	s.Facts.Offered = r.Read.Version
	s.Facts.Notes = r.Read.Desired.Notes
	switch {
	case errors.Is(r.Err, source.ErrAbsent):
		s.Facts.Missing = hint.Line(r.Err)
	case errors.Is(r.Err, source.ErrFetching):
	case r.Err != nil:
		s.Faults = s.Faults.refused(refusalOf(r.Err), Describe(r.Err))
	default:
		s.Desired = s.Desired.of(r.Read)
		s.Facts.Waits = r.Read.Waits
		s.Facts.Update = r.Read.Desired.Update
	}
	return s
}

// reconcile applies what the source says, if it is to be applied.
func reconcile(s State, r Result) (State, []Effect) {
	s, effects := accept(s, r)
	s, applies := s.applies(r.Holds.Held, r.Holds.Err)
	if !applies {
		return s, append(effects, Show{})
	}
	return s, append(effects, TryThreads{Apply: Step{
		Kind: Apply,
		Have: s.Current.Generation,
		Apply: apply.Request{
			Desired: r.Read.Desired,
			Digest:  r.Read.digest(),
			Source:  r.Read.Name,
		},
	}})
}

// threadsTried begins an apply. It has to wait if the kernel gives no more
// processes: the change would stop units that cannot be started again, and count
// as bad. The end of that reads the source again.
func threadsTried(s State, applies Step, threads limits.Usage) (State, []Effect) {
	err := limits.NoThreads(threads)
	if err == nil {
		return s, []Effect{Begin{Step: applies}}
	}

	s.Faults = s.Faults.refused(status.NotApplied, Describe(err))
	return s, []Effect{
		failure("not applied yet", zap.Error(err)),
		SetAlarm{Which: resumeAlarm, In: retryDelay},
		SetAlarm{Which: aliveAlarm},
		Show{},
	}
}

// reportUnreadable logs once why a configuration cannot be read. What it refers
// to may appear later.
func reportUnreadable(s State, err error) []Effect {
	var effects []Effect
	last := s.Published.Last.Error
	if last == nil || last.Problem != s.Faults.Desired.Problem {
		effects = append(effects, failure("the configuration cannot be had", zap.Error(err)))
	}
	if !errors.As(err, new(document.Errors)) {
		effects = append(effects, SetAlarm{Which: readAlarm, In: readDelay})
	}
	return effects
}

// accept does what a new document of the source entails.
func accept(s State, r Result) (State, []Effect) {
	var effects []Effect
	if r.Holds.Released != nil {
		effects = append(effects, Warn{
			What: "release the source's configuration",
			Err:  r.Holds.Released,
		})
	}
	if len(r.Read.Waits) > 0 {
		effects = append(effects, SetAlarm{Which: probeAlarm, In: probeDelay})
	}
	if notes := r.Read.Desired.Notes; !slices.Equal(notes, s.Desired.Notes) {
		s.Desired.Notes = notes
		effects = append(effects, reportNotes(notes)...)
	}
	return s, effects
}

// reconcileFor applies what a caller asks for, although it may be held.
func reconcileFor(s State, request *Request, r Result) (State, []Effect) {
	if r.Err != nil {
		return s, fail(request, r.Err)
	}

	digest := r.Read.digest()
	current := s.Current.Generation
	if digest == current.Digest {
		s.Due.Read = true
		return s, succeed(request, control.Outcome{
			Result:     control.Unchanged,
			Generation: current.Name(),
			Digest:     digest,
		})
	}
	return s, []Effect{Begin{Step: Step{
		Kind:    Apply,
		Request: request,
		Have:    current,
		Hold:    r.Holds.Source,
		Apply: apply.Request{
			Desired: r.Read.Desired,
			Digest:  digest,
			Source:  r.Read.Name,
			Try:     request.Ask.(askApply).Try,
		},
	}}}
}

// refusalOf returns the kind of an error in reading a document.
func refusalOf(err error) status.Refusal {
	if errors.As(err, new(document.Errors)) {
		return status.Invalid
	}
	return status.Unavailable
}

// of returns what the source asks for now. The notes stay, as they are those
// that operators were told of.
func (d Desired) of(r Reading) Desired {
	content := map[string]config.Content{}
	for _, f := range r.Desired.Files {
		content[f.Content.Digest] = f.Content
	}
	for _, u := range r.Desired.Units {
		for _, text := range u.Texts() {
			c := config.Text(text)
			content[c.Digest] = c
		}
	}

	return Desired{
		Version:       r.Version,
		FullDigest:    r.FullDigest,
		AppliedDigest: r.digest(),
		Content:       content,
		Notes:         d.Notes,
	}
}

// applies reports whether to apply what the source gave, and returns the state
// with the reason if not: the node runs it already, it is held, or an operator
// tries another. held is nil if it is not held; err says why that is unknown.
func (s State) applies(held *apply.Held, err error) (State, bool) {
	s.Facts.Held = nil

	current := s.Current.Generation
	switch {
	case err != nil:
		s.Faults = s.Faults.refused(status.NotApplied, Describe(err))
		return s, false
	case s.Desired.AppliedDigest == current.Digest && current.OSVersion == s.Facts.ImageVersion:
		return s, false // Another system's units may be enabled otherwise.
	case held != nil && held.Operator:
		s.Facts.Held = &status.Held{Digest: held.Digest, Why: held.Why}
		return s, false
	case held != nil:
		advice := "change it, or try it again with `loam apply`"
		if held.Unit != "" {
			advice = "`loam why` shows its log; " + advice
		}
		what := "configuration " + held.Digest
		if held.Generation != "" {
			what = "generation " + held.Generation
		}
		s.Faults = s.Faults.refused(status.Reverted, &status.Error{
			Unit:    held.Unit,
			Problem: what + " was taken back: " + held.Why,
			Hint:    advice,
			Code:    fault.TakenBack,
		})
		s.Faults.RevertedFrom = held.Generation
		return s, false
	}
	return s, !s.Change.trying()
}
