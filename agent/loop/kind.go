package loop

import (
	"context"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
)

// Kind is what a [Step] does: what becomes of it at each station of its way. All
// of a kind is in one file.
type Kind struct {
	name string

	// begin returns the state in which the step runs, with what it does no longer
	// due, and what its begin entails. now is the time since kernel start. It is
	// nil if nothing changes.
	begin func(s State, step Step, now time.Duration) (State, []Effect)

	// perform does the step on the node; it is nil if there is nothing to do
	// there. atOnce says that it takes no time: it is done on the loop's
	// goroutine, and any other beside the loop.
	perform func(ctx context.Context, w worker, step Step) Result
	atOnce  bool

	// after returns what the result makes of the state, and what else it entails.
	// It is nil if it does nothing.
	after func(s State, step Step, r Result, now time.Duration) (State, []Effect)
}

// String returns the name of the kind.
func (k *Kind) String() string { return k.name }

// Wait for the next event: nothing is due.
var Wait = &Kind{name: "wait", atOnce: true}

// Step is one thing to do. It has all that it needs, so that it can run beside
// the loop.
type Step struct {
	Kind *Kind
	// Request is what asked for it; nil if no caller did.
	Request *Request
	// Have is the generation that is current as the step begins.
	Have generation.Manifest
	// Desired is what the source asks for as the step begins.
	Desired Desired
	// Paths are the managed paths to repair.
	Paths []string
	// Content has the files for a repair, by digest.
	Content map[string]config.Content
	// Verdict is carried out by Conclude.
	Verdict health.Verdict
	// Probes are what Probe tries.
	Probes []config.Probe
	// Document is what Read reads; nil for the document of the source.
	Document *source.Document
	// Apply is what Apply applies. Hold is the digest of the source's
	// configuration that is held meanwhile, empty if none.
	Apply apply.Request
	Hold  string
	// Superseded says that EndReset ends a reset because there is another
	// machine.yaml, not because a caller asks for it.
	Superseded bool
}

// Result is what a step has come to. Which fields are set depends on the step.
type Result struct {
	Err error
	// Resumed is the result of Resume.
	Resumed apply.Resumed
	// Read is the document that Read has read.
	Read Reading
	// Holds is what Read and Reapply have found or made of the holds.
	Holds Holds
	// Generation is the current generation after Apply, Rollback, Reapply and
	// Confirm, zero if they have changed nothing.
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

// worker does the steps. It has no access to the state.
type worker struct {
	engine  Engine
	units   Units
	source  source.Source
	cluster Cluster
	reset   Resetter
	decoder Decoder
	host    Host
}

// Begin returns the state in which a step runs, and what its begin entails: what
// it does is no longer due. now is the time since kernel start.
func (s State) Begin(step Step, now time.Duration) (State, []Effect) {
	s.Busy = !step.Kind.atOnce
	if step.Kind.begin == nil {
		return s, nil
	}
	return step.Kind.begin(s, step, now)
}

// perform does a step.
func (w worker) perform(ctx context.Context, step Step) Result {
	if step.Kind.perform == nil {
		return Result{}
	}
	return step.Kind.perform(ctx, w, step)
}

// After returns what the result of a step makes of the state, and what else it
// entails. now is the time since kernel start.
func (s State) After(step Step, r Result, now time.Duration) (State, []Effect) {
	s.Busy = false
	s.Change.Job = nil
	if step.Kind.after == nil {
		return s, nil
	}
	return step.Kind.after(s, step, r, now)
}
