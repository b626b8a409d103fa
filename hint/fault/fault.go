// Package fault gives errors a code: one vocabulary for both commands, the
// control socket, the status and the documentation.
//
// The package that makes an error knows best what it is, and attaches a code
// with [With]. [Of] returns the code of any error; errors of the standard
// library have one without being marked. A code says to which [Class] an error
// belongs, and what an operator can do in general; a hint of package hint says
// more.
//
// Codes are for programs and for searching the documentation. They stay.
//
//	With(err, code) --> error --Of--> Code --Table--> Fault: class, meaning, hint
//	                      |                             |
//	standard library -----+                             v
//	                        cmd/outcome: exit status, docs/reference/errors.md
package fault

import "cmp"

// Code names a refusal or a failure. It is stable.
type Code string

// Class is what a caller needs to know of an error to decide what is next.
type Class string

// The classes of errors.
const (
	// ClassUsage means that the command line is wrong. Nothing was done.
	ClassUsage Class = "usage"
	// ClassRefused means that a rule or the state of things is against the
	// request. Nothing was changed, and the same request is refused again until
	// something else is different.
	ClassRefused Class = "refused"
	// ClassUnreachable means that something else did not answer: an agent, a
	// server, a registry. The same request may succeed later.
	ClassUnreachable Class = "unreachable"
	// ClassFailed means that it was tried and did not succeed.
	ClassFailed Class = "failed"
	// ClassInterrupted means that the caller has ended it.
	ClassInterrupted Class = "interrupted"
)

// Exit statuses of the commands that are not those of a class.
const (
	// ExitDone is success.
	ExitDone = 0
	// ExitToDo is for `loam plan --exit-code`: there is something to do.
	ExitToDo = 5
)

// ExitStatus returns the exit status of a command that ends with an error of the
// class.
func (c Class) ExitStatus() int {
	switch c {
	case ClassUsage:
		return 2
	case ClassRefused:
		return 3
	case ClassUnreachable:
		return 4
	case ClassInterrupted:
		return 130 // 128 + SIGINT, as shells do.
	}
	return 1
}

// coded is an error with a code.
type coded struct {
	error
	code Code
}

// With gives an error a code. A code that is closer to the cause counts more. It
// returns nil for nil.
func With(err error, code Code) error {
	if err == nil {
		return nil
	}
	return &coded{err, code}
}

// Unwrap returns the error without the code.
func (c *coded) Unwrap() error { return c.error }

// FaultCode implements [Coder].
func (c *coded) FaultCode() Code { return c.code }

// Coder is implemented by errors that may have a code; "" means no code.
type Coder interface{ FaultCode() Code }

// Of returns the code of an error: the one that is attached closest to the
// cause, else what the errors of the standard library in its chain say, else
// [Failed]. It returns "" for nil.
func Of(err error) Code {
	if err == nil {
		return ""
	}
	if code := attached(err); code != "" {
		return code
	}
	return classify(err)
}

// attached returns the code closest to the cause of an error, "" if the error
// has no code.
func attached(err error) Code {
	switch wraps := err.(type) {
	case interface{ Unwrap() error }:
		if inner := wraps.Unwrap(); inner != nil {
			if code := attached(inner); code != "" {
				return code
			}
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wraps.Unwrap() {
			if code := attached(inner); code != "" {
				return code
			}
		}
	}

	if own, is := err.(Coder); is {
		return own.FaultCode()
	}
	return ""
}

// Class returns the class of a code. A code that is not in the table, as a newer
// agent may send it, is of [ClassFailed].
func (c Code) Class() Class { return cmp.Or(c.fault().Class, ClassFailed) }

// Hint returns what an operator can do about a code, "" if nothing can be said
// in general.
func (c Code) Hint() string { return c.fault().Hint }

// fault returns the row of the table, the zero Fault for an unknown code.
func (c Code) fault() Fault {
	for _, f := range Table() {
		if f.Code == c {
			return f
		}
	}
	return Fault{}
}

// IsSpecific reports whether a code says more than its class does.
func (c Code) IsSpecific() bool {
	return c != "" && c != Usage && c != Failed && c != Interrupted
}
