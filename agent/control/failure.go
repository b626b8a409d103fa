package control

import (
	"errors"
	"net/http"

	"github.com/loam-os/loam/agent/document"
)

// ErrBusy means that the node is changing already.
var ErrBusy = errors.New("another change is under way")

// failure is an error on its way through the socket: its text, and of its chain
// what callers branch on.
type failure struct {
	Text     string          `json:"error"`
	Document document.Errors `json:"document,omitempty"`
	Busy     bool            `json:"busy,omitempty"`
}

func asFailure(err error) failure {
	wrong, _ := errors.AsType[document.Errors](err)
	return failure{Text: err.Error(), Document: wrong, Busy: errors.Is(err, ErrBusy)}
}

func (f failure) Error() string { return f.Text }

func (f failure) Unwrap() []error {
	var chain []error
	if len(f.Document) > 0 {
		chain = append(chain, f.Document)
	}
	if f.Busy {
		chain = append(chain, ErrBusy)
	}
	return chain
}

// status is for a person who talks to the socket with curl; Client tells the
// errors apart by their fields.
func (f failure) status() int {
	switch {
	case f.Busy:
		return http.StatusConflict
	case len(f.Document) > 0:
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}
