package control

import (
	"context"
	"net/http"
	"time"
)

// Socket is the path on which the agent listens.
const Socket = "/run/loam/agent.sock"

// Agent has the requests that an operator can make to the agent. It returns
// ErrBusy while another change is under way. On their way through the socket
// errors keep their text, their hints and their code (package fault), and
// work with errors.As for document.Errors.
type Agent interface {
	// Apply applies a document.
	Apply(ctx context.Context, request ApplyRequest) (Outcome, error)

	// Confirm keeps the change that is on trial.
	Confirm(ctx context.Context) (Outcome, error)

	// Rollback makes an earlier generation the current one.
	Rollback(ctx context.Context, request RollbackRequest) (Outcome, error)

	// Verify compares every managed path with its desired state.
	Verify(ctx context.Context, request VerifyRequest) (VerifyReport, error)

	// Restart restarts units of the configuration, one after the other.
	Restart(ctx context.Context, request RestartRequest) (Outcome, error)

	// Upgrade installs another release and restarts the machine with it.
	Upgrade(ctx context.Context, request UpgradeRequest) (Outcome, error)

	// Reset removes the node's configuration and identity. Its error lists
	// everything that could not be done.
	Reset(ctx context.Context) (Outcome, error)
}

// ApplyRequest is a configuration to apply.
type ApplyRequest struct {
	// Name is the document's name in errors and in the history.
	Name string `json:"name,omitempty"`

	// Document is its text; "" reads the node's own source again.
	Document string `json:"document,omitempty"`

	// Try is the number of nanoseconds after which an unconfirmed change is
	// reverted; 0 is never.
	Try time.Duration `json:"try,omitempty"`
}

// RollbackRequest says which generation to roll back to.
type RollbackRequest struct {
	// Generation is a number or a name; "" is the one before the current.
	Generation string `json:"generation,omitempty"`
	// Held takes the generation even if it is held because it failed. It is
	// then watched, and reverted if it is bad.
	Held bool `json:"held,omitempty"`
}

// RestartRequest says which units to restart.
type RestartRequest struct {
	// Units are names of units of the current generation.
	Units []string `json:"units"`
}

// UpgradeRequest says which release a node should run.
type UpgradeRequest struct {
	// From is a repository, by default the one in machine.yaml. Version is ""
	// for the newest.
	From    string `json:"from,omitempty"`
	Version string `json:"version,omitempty"`

	// Again retries a release that has failed. Now ignores the minimum time
	// between two upgrades and the maintenance window.
	Again bool `json:"again,omitempty"`
	Now   bool `json:"now,omitempty"`

	// Permit is the text of a permit for an older release than the running one.
	// Back selects the release in the other slot, whatever Version is.
	Permit []byte `json:"permit,omitempty"`
	Back   bool   `json:"back,omitempty"`

	// Cancel ends the upgrade under way, and excludes all other fields.
	Cancel bool `json:"cancel,omitempty"`

	// Drill, "check" or "panic", makes the running release fail on purpose and
	// excludes all other fields.
	Drill string `json:"drill,omitempty"`

	// Plan only checks whether the upgrade would be done. Stay leaves the
	// restart to the operator.
	Plan bool `json:"plan,omitempty"`
	Stay bool `json:"stay,omitempty"`
}

// VerifyRequest says what to do about drifted paths.
type VerifyRequest struct {
	Repair bool `json:"repair,omitempty"`

	// Progress is called now and then with how many bytes of all were read; it
	// may be nil. It is called by one goroutine at a time, and must not block.
	Progress func(done, all int64) `json:"-"`
}

// Result is the result of a change.
type Result string

// The results of a change.
const (
	Applied   Result = "applied"
	Unchanged Result = "unchanged"
	Trying    Result = "trying"
	Reverted  Result = "reverted"
	Confirmed Result = "confirmed"
	Reset     Result = "reset"
	Restarted Result = "restarted"
	// Armed means that the machine boots the release next.
	Armed Result = "armed"
	// Planned means that nothing was done.
	Planned Result = "planned"
	// Canceled means that no upgrade is under way any more.
	Canceled Result = "canceled"
)

// Outcome is the state of the node after a change.
type Outcome struct {
	// Result is what became of the change: "applied", "unchanged", "trying", "reverted",
	// "confirmed", "restarted", "reset", "armed", "canceled", or "planned" if there is none yet.
	Result Result `json:"result"`
	// Generation is the current generation.
	Generation string `json:"generation,omitempty"`
	// From is the generation, or the version of the system, before the change.
	From string `json:"from,omitempty"`
	// Digest is the digest of the configuration.
	Digest string `json:"digest,omitempty"`
	// Reason explains the result, for display.
	Reason string `json:"reason,omitempty"`
	// Unit is the unit that Reason is about, "" if none.
	Unit string `json:"unit,omitempty"`
	// Until is when a change on trial is reverted; zero for any other.
	Until time.Time `json:"until,omitzero"`
	// Version is the installed release.
	Version string `json:"version,omitempty"`
	// Plan is what was done, as text.
	Plan string `json:"plan,omitempty"`
	// Size is the most that a planned upgrade would fetch, in bytes.
	Size int64 `json:"size,omitempty"`
}

// VerifyReport is the result of Verify.
type VerifyReport struct {
	// Checked is the number of paths.
	Checked int `json:"checked"`
	// Bytes is the size of the content that was read.
	Bytes int64 `json:"bytes"`
	// Bad are the drifted paths.
	Bad []Finding `json:"bad,omitempty"`
}

// Finding is one drifted path.
type Finding struct {
	// Path is where it is on the node.
	Path string `json:"path"`
	// Problem is what is wrong with it.
	Problem string `json:"problem"`
	// Repaired says that it is as it should be again.
	Repaired bool `json:"repaired"`
}

var _ Agent = Client{}

// The paths of the requests; each is a POST.
const (
	applyPath    = "/apply"
	confirmPath  = "/confirm"
	rollbackPath = "/rollback"
	verifyPath   = "/verify"
	restartPath  = "/restart"
	resetPath    = "/reset"
	upgradePath  = "/upgrade"
)

// handler answers the requests at their paths.
func handler(ctx context.Context, agent Agent) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST "+applyPath, answer(ctx, agent.Apply))
	mux.Handle("POST "+confirmPath,
		answer(ctx, func(ctx context.Context, _ struct{}) (Outcome, error) {
			return agent.Confirm(ctx)
		}))

	mux.Handle("POST "+rollbackPath, answer(ctx, agent.Rollback))
	mux.Handle("POST "+verifyPath, answerTo(ctx, func(
		ctx context.Context, w http.ResponseWriter, request VerifyRequest,
	) (VerifyReport, error) {
		return withProgress(w, func(report func(done, all int64)) (VerifyReport, error) {
			request.Progress = report
			return agent.Verify(ctx, request)
		})
	}))
	mux.Handle("POST "+restartPath, answer(ctx, agent.Restart))
	mux.Handle("POST "+upgradePath, answer(ctx, agent.Upgrade))
	mux.Handle("POST "+resetPath,
		answer(ctx, func(ctx context.Context, _ struct{}) (Outcome, error) {
			return agent.Reset(ctx)
		}))

	return mux
}

// Apply implements [Agent].
func (c Client) Apply(ctx context.Context, request ApplyRequest) (Outcome, error) {
	return retry(ctx, func() (Outcome, error) { return send[Outcome](ctx, c, applyPath, request) })
}

// Confirm implements [Agent].
func (c Client) Confirm(ctx context.Context) (Outcome, error) {
	return send[Outcome](ctx, c, confirmPath, struct{}{})
}

// Rollback implements [Agent].
func (c Client) Rollback(ctx context.Context, request RollbackRequest) (Outcome, error) {
	return send[Outcome](ctx, c, rollbackPath, request)
}

// Verify implements [Agent]. It does not call Progress after it has returned.
func (c Client) Verify(ctx context.Context, request VerifyRequest) (VerifyReport, error) {
	ctx, end := reporting(ctx, request.Progress)
	defer end()

	return send[VerifyReport](ctx, c, verifyPath, request)
}

// Restart implements [Agent].
func (c Client) Restart(ctx context.Context, request RestartRequest) (Outcome, error) {
	return send[Outcome](ctx, c, restartPath, request)
}

// Upgrade implements [Agent].
func (c Client) Upgrade(ctx context.Context, request UpgradeRequest) (Outcome, error) {
	return send[Outcome](ctx, c, upgradePath, request)
}

// Reset implements [Agent].
func (c Client) Reset(ctx context.Context) (Outcome, error) {
	return retry(ctx, func() (Outcome, error) {
		return send[Outcome](ctx, c, resetPath, struct{}{})
	})
}
