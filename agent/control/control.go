// Package control is how a command on the node reaches the one agent that owns
// it: HTTP with JSON over a unix socket. Both ends are a Node, so that what is
// asked through the socket is what the agent would be asked directly.
package control

import (
	"context"
	"time"
)

// Socket is where the agent listens.
const Socket = "/run/loam/agent.sock"

// Node is what a person can ask of the agent. It answers ErrBusy while another
// change is under way. Errors keep their text, and what they are as far as
// errors.As document.Errors and errors.Is ErrBusy and ErrRestarting go.
type Node interface {
	// Apply makes the node what a document says.
	Apply(ctx context.Context, request ApplyRequest) (Outcome, error)

	// Confirm makes the change that is on trial stay.
	Confirm(ctx context.Context) (Outcome, error)

	// Rollback makes an earlier generation the current one.
	Rollback(ctx context.Context, request RollbackRequest) (Outcome, error)

	// Verify compares every managed path with what it should be.
	Verify(ctx context.Context, request VerifyRequest) (VerifyReport, error)

	// Upgrade brings another version of the system, and restarts the machine
	// with it.
	Upgrade(ctx context.Context, request UpgradeRequest) (Outcome, error)

	// Reset takes the node's configuration and identity away. Its error says
	// all that could not be done.
	Reset(ctx context.Context) (Outcome, error)
}

// ApplyRequest is a configuration to apply.
type ApplyRequest struct {
	// Name is what the document is called in errors and in the history.
	Name string `json:"name,omitempty"`

	// Document is its text; "" reads the node's own source again.
	Document string `json:"document,omitempty"`

	// Try is after how many nanoseconds the change is reverted if nobody
	// confirms it; 0 is never.
	Try time.Duration `json:"try,omitempty"`
}

// RollbackRequest says which generation to go back to.
type RollbackRequest struct {
	// Generation is a number or a name; "" is the one before the current.
	Generation string `json:"generation,omitempty"`
}

// UpgradeRequest says which system a node is to run.
type UpgradeRequest struct {
	// From is a repository, "" for that of machine.yaml; Version is "" for the
	// newest.
	From    string `json:"from,omitempty"`
	Version string `json:"version,omitempty"`

	// Again tries one that has failed, Now does not wait for the time between
	// two upgrades, nor for the window of restarts.
	Again bool `json:"again,omitempty"`
	Now   bool `json:"now,omitempty"`

	// Permit is the text of one for a release that is older than what runs.
	// Back is to the system in the other slot, whatever Version is.
	Permit []byte `json:"permit,omitempty"`
	Back   bool   `json:"back,omitempty"`

	// Drill has the running system fail on purpose, "check" or "panic", in
	// place of all that.
	Drill string `json:"drill,omitempty"`

	// Plan only says whether it would be done, Stay leaves the restart to a
	// person.
	Plan bool `json:"plan,omitempty"`
	Stay bool `json:"stay,omitempty"`
}

// VerifyRequest says what to do about paths that are not as they should be.
type VerifyRequest struct {
	Repair bool `json:"repair,omitempty"`
}

// Result is what became of a change.
type Result string

// The results of a change.
const (
	Applied   Result = "applied"
	Unchanged Result = "unchanged"
	Trying    Result = "trying"
	Reverted  Result = "reverted"
	Confirmed Result = "confirmed"
	Reset     Result = "reset"
	// Armed is a system that the machine starts next.
	Armed Result = "armed"
)

// Outcome is the node after a change.
type Outcome struct {
	Result Result `json:"result"`
	// Generation is the current one, From the one before the change.
	Generation string `json:"generation,omitempty"`
	From       string `json:"from,omitempty"`
	// Digest is of the configuration.
	Digest string `json:"digest,omitempty"`
	// Reason says why the result is what it is, for a person.
	Reason string `json:"reason,omitempty"`
	// Until is when a change on trial is reverted; zero for any other.
	Until time.Time `json:"until,omitzero"`
	// Version is that of the system that was brought.
	Version string `json:"version,omitempty"`
	// Plan is what was done, as text.
	Plan string `json:"plan,omitempty"`
}

// VerifyReport is what Verify found.
type VerifyReport struct {
	// Checked is the number of paths, Bytes the size of the content read.
	Checked int   `json:"checked"`
	Bytes   int64 `json:"bytes"`
	// Bad are the paths that are not as they should be.
	Bad []Finding `json:"bad,omitempty"`
}

// Finding is one path that is not as it should be.
type Finding struct {
	Path     string `json:"path"`
	Problem  string `json:"problem"`
	Repaired bool   `json:"repaired"`
}
