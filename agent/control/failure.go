package control

import (
	"errors"
	"net/http"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/hint"
)

// ErrBusy means that another change is under way.
var ErrBusy = errors.New("another change is under way")

// ErrRestarting means that the agent restarts before it handles the request.
// The caller must repeat it.
var ErrRestarting = errors.New("the agent is restarting")

// ErrUnreachable means that something on the network cannot be reached, which
// may be temporary.
var ErrUnreachable = errors.New("cannot be reached")

// failure is an error on its way through the socket: its text, and the errors
// in its chain on which callers branch.
type failure struct {
	Text     string          `json:"error"`
	Advice   []string        `json:"hints,omitempty"`
	Document document.Errors `json:"document,omitempty"`
	Busy     bool            `json:"busy,omitempty"`
	// Restarting is ErrRestarting.
	Restarting bool `json:"restarting,omitempty"`
	// Unreachable is ErrUnreachable.
	Unreachable bool `json:"unreachable,omitempty"`
	// Refusal is the code of a *Refusal.
	Refusal string `json:"refusal,omitempty"`
}

// Refusal is why a request was refused; nothing has changed.
type Refusal struct {
	// Code is stable, for programs.
	Code          string
	Problem, Hint string
}

func (r *Refusal) Error() string { return r.Problem }

// Hints implements [hint.Hinted].
func (r *Refusal) Hints() []string {
	if r.Hint == "" {
		return nil
	}
	return []string{r.Hint}
}

func asFailure(err error) failure {
	wrong, _ := errors.AsType[document.Errors](err)
	f := failure{
		Text:        err.Error(),
		Advice:      hint.All(err),
		Document:    wrong,
		Busy:        errors.Is(err, ErrBusy),
		Restarting:  errors.Is(err, ErrRestarting),
		Unreachable: errors.Is(err, ErrUnreachable),
	}
	if r, is := errors.AsType[*Refusal](err); is {
		f.Refusal = r.Code
	}
	return f
}

func (f failure) Error() string { return f.Text }

// Hints implements [hint.Hinted].
func (f failure) Hints() []string { return f.Advice }

func (f failure) Unwrap() []error {
	var chain []error
	if len(f.Document) > 0 {
		chain = append(chain, f.Document)
	}
	if f.Busy {
		chain = append(chain, ErrBusy)
	}
	if f.Restarting {
		chain = append(chain, ErrRestarting)
	}

	if f.Unreachable {
		chain = append(chain, ErrUnreachable)
	}
	if f.Refusal != "" {
		chain = append(chain, &Refusal{Code: f.Refusal, Problem: f.Text})
	}

	return chain
}

// status helps people who use the socket with curl. Client tells errors apart
// by their fields.
func (f failure) status() int {
	switch {
	case f.Busy, f.Refusal != "":
		return http.StatusConflict
	case f.Restarting, f.Unreachable:
		return http.StatusServiceUnavailable
	case len(f.Document) > 0:
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}
