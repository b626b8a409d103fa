package control

import (
	"errors"
	"net/http"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// ErrBusy means that another change is under way.
var ErrBusy = fault.With(errors.New("another change is under way"), fault.Busy)

// ErrRestarting means that the agent restarts before it handles the request.
// The caller must repeat it.
var ErrRestarting = fault.With(errors.New("the agent is restarting"), fault.AgentRestarting)

// failure is an error on its way through the socket: its text, its hints and its
// code, by which callers branch, and the mistakes of a document.
type failure struct {
	Text     string          `json:"error"`
	Advice   []string        `json:"hints,omitempty"`
	Code     fault.Code      `json:"code,omitempty"`
	Document document.Errors `json:"document,omitempty"`
}

func asFailure(err error) failure {
	wrong, _ := errors.AsType[document.Errors](err)
	code := fault.Of(err)
	if code == fault.Interrupted { // The agent was stopped, not the caller.
		code = fault.AgentNotRunning
	}

	return failure{
		Text:     err.Error(),
		Advice:   hint.All(err),
		Code:     code,
		Document: wrong,
	}
}

func (f failure) Error() string { return f.Text }

// Hints implements [hint.Hinted].
func (f failure) Hints() []string { return f.Advice }

// FaultCode implements [fault.Coder].
func (f failure) FaultCode() fault.Code { return f.Code }

// Unwrap returns the mistakes of a document, nil for other errors.
func (f failure) Unwrap() error {
	if len(f.Document) == 0 {
		return nil
	}
	return f.Document
}

// status helps people who use the socket with curl. Client tells errors apart
// by their codes.
func (f failure) status() int {
	switch class := f.Code.Class(); {
	case len(f.Document) > 0:
		return http.StatusUnprocessableEntity
	case class == fault.ClassRefused:
		return http.StatusConflict
	case class == fault.ClassUnreachable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
