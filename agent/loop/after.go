package loop

import (
	"errors"
	"slices"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Result is what a step has come to. Which fields are set depends on the step.
type Result struct {
	Err error
	// Resumed is the result of Resume.
	Resumed apply.Resumed
	// Read is the document that Read has read.
	Read Reading
	// Holds is what Read and Reapply have found or made of the holds.
	Holds Holds
	// Generation is the current generation after Apply and Rollback, zero if
	// they have changed nothing.
	Generation generation.Manifest
	// Node is what a step that changes the node has made of it.
	Node Observation
	// Paths are the managed paths that Repair has repaired, Owed the units that
	// have not started after Start.
	Paths, Owed []string
	// Answers says that a probe answers now.
	Answers bool
	// Verified is the result of Verify.
	Verified apply.Verified
	// Reset is the reset after RunReset. ResetIsOver says that it ends by
	// itself.
	Reset       *status.Reset
	ResetIsOver bool
}

// Reading is a configuration as the source or a caller gave it.
type Reading struct {
	Name    string
	Version string
	// Desired lacks the files that wait for a probe.
	Desired config.Desired
	// FullDigest is the digest of all of it, Desired's without the files that
	// wait.
	FullDigest string
	// Waits are its probes that do not answer yet.
	Waits []config.Probe
}

// Holds is what a step has found or made of the holds.
type Holds struct {
	// Held is why the configuration of the source is not to be applied by
	// itself, nil if it is not held. Err says that this is unknown, or that the
	// configuration cannot be held.
	Held *apply.Held
	Err  error
	// Released is why the configuration that the source gave before is still
	// held; nil if it is not.
	Released error
	// Source is the digest of the source's configuration that was held for a
	// caller's, empty if none was.
	Source string
}

// Observation is what the engine and the history say of the node.
type Observation struct {
	Current generation.Manifest
	// Pending is the change that has not proven itself; nil if none.
	Pending *apply.Pending
	// Owed are the units to start again.
	Owed []string
	// TakenBack is the change that was taken back to Current. It is read only if
	// the node had no generation before.
	TakenBack *status.TakenBack
	// Problems are what could not be read.
	Problems []Warn
}

// Warn is an error that the node lives with.
type Warn struct {
	What string
	Err  error
}

// digest returns the digest of Desired.
func (r Reading) digest() string {
	if len(r.Waits) == 0 && r.FullDigest != "" {
		return r.FullDigest // Making it takes time.
	}
	return r.Desired.Digest()
}

// After returns what the result of a step makes of the state. now is the time
// since kernel start.
func (s State) After(step Step, r Result, now time.Duration) State {
	s.Busy = false
	s.Change.Job = nil

	switch step.Kind {
	case Resume:
		return s.afterResume(r, now)
	case Conclude:
		return s.afterConclude(step, r)
	case Repair:
		return s.unrepaired(r.Err).repaired(r.Paths, now)
	case Read:
		return s.afterRead(step, r)
	case Probe:
		s.Due.Read = s.Due.Read || r.Answers
	case Start:
		s.Starts.Owed = r.Owed
		s.Faults.Jobs = Describe(r.Err)
	case Apply:
		return s.afterApply(step, r)
	case Rollback, Reapply:
		return s.afterRollback(r)
	case Verify:
		return s.repaired(repairedBy(r.Verified), now)
	case RunReset:
		return s.afterReset(r)
	}
	return s
}

// afterResume notes what keeps the node from being its current generation. A
// unit that did not come up is no reason to try again.
func (s State) afterResume(r Result, now time.Duration) State {
	s.Faults.Unfinished = nil
	switch {
	case r.Err == nil:
	case r.Resumed.Finished != "" && !errors.Is(r.Err, apply.ErrUnfinished):
		s.Faults.Jobs = Describe(r.Err)
	default:
		s.Faults.Unfinished = Describe(r.Err)
	}
	return s.repaired(r.Resumed.Repaired, now).unrepaired(r.Resumed.Drift)
}

// afterConclude has the source read again after a revert, as a try may have
// kept it waiting, and whenever the node ran something else than the source
// asks for.
func (s State) afterConclude(step Step, r Result) State {
	if r.Err == nil && step.Verdict.Word == health.Good {
		s.Starts.Unwell = step.Verdict.Unwell
	}
	if step.Verdict.Word == health.Bad || step.Have.Digest != s.Desired.AppliedDigest {
		s.Due.Read = true
	}
	return s.changed(r.Err)
}

// afterRead takes over what the source says. Without a document, or with a
// wrong one, the node does not change. The document of a caller is not the
// source's.
func (s State) afterRead(step Step, r Result) State {
	if step.Request != nil {
		return s
	}

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

// changedNothing reports whether an apply was refused before it changed the
// node.
func (r Result) changedNothing() bool {
	return r.Err != nil && r.Generation.Name() == "" && !errors.Is(r.Err, apply.ErrUnfinished)
}

func (s State) afterApply(step Step, r Result) State {
	s.Change.Applying = false
	if r.changedNothing() {
		if step.Request == nil {
			s.Faults = s.Faults.refused(status.NotApplied, Describe(r.Err))
		}
		return s
	}

	// The files that wait belong to the source's document. A caller has
	// replaced that.
	if step.Request != nil {
		s.Facts.Waits = nil
	}
	return s.changed(r.Err)
}

func (s State) afterRollback(r Result) State {
	if r.changedNothing() {
		return s
	}
	if !errors.Is(r.Err, apply.ErrUnfinished) {
		s.Due.Read = true
	}
	return s.changed(r.Err)
}

func (s State) afterReset(r Result) State {
	s.Reset = Reset{Ran: true, Err: r.Err}
	s.Change.Applying = false
	s.Facts.Reset = r.Reset
	switch {
	case !r.Reset.Done:
		s.Faults = s.Faults.refused("", &status.Error{
			Problem: "reset: " + hint.Line(r.Err),
			Hint:    resetAgain,
		})
	case r.Err != nil:
		return s.warn("reset: " + hint.Line(r.Err))
	}
	return s
}

// changed returns the state after the engine has made the node something else,
// with what went wrong.
func (s State) changed(err error) State {
	s.Faults.Unfinished = nil
	s.Faults.Jobs = nil
	s.Due.Prune = true
	switch {
	case errors.Is(err, apply.ErrUnfinished):
		s.Faults.Unfinished = Describe(err)
	case err != nil:
		s.Faults.Jobs = Describe(err)
	}
	return s
}

// repaired counts the paths that something else had changed.
func (s State) repaired(paths []string, now time.Duration) State {
	if len(paths) == 0 {
		return s
	}
	s.Facts.Drift = status.Drift{
		Repaired: s.Facts.Drift.Repaired + len(paths),
		Last:     paths[len(paths)-1],
		At:       status.Duration(now),
	}
	return s
}

// unrepaired notes that a managed path cannot be repaired. nil means that all
// can that were looked at; the fault stays until all paths are looked at again.
func (s State) unrepaired(err error) State {
	switch {
	case err != nil:
		s.Faults.Drift = Describe(err)
		s.Drift.Again = true
	case !s.Drift.Again:
		s.Faults.Drift = nil
	}
	return s
}

// repairedBy returns the paths that a verification has repaired.
func repairedBy(v apply.Verified) []string {
	var paths []string
	for _, bad := range v.Bad {
		if bad.Repaired {
			paths = append(paths, bad.Path)
		}
	}
	return paths
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

// has reports whether a generation has the file at that path with the same
// content as files.
func has(m generation.Manifest, files []config.File, name string) bool {
	return slices.ContainsFunc(m.Entries, func(e generation.Entry) bool {
		return e.Path == name && slices.ContainsFunc(files, func(f config.File) bool {
			return f.Path == name && f.Content.Digest == e.Digest
		})
	})
}
