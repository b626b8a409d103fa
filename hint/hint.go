// Package hint gives errors what an operator can do about them.
//
// [With] adds a hint to an error. The text of the error stays the problem
// alone, so that callers can wrap it as usual: the hint travels beside the
// text, and [Text] or [Line] shows both. Nothing parses a hint out of a text.
package hint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// hinted is an error with a hint.
type hinted struct {
	error
	hint string
}

// With adds a hint to an error.
func With(err error, format string, args ...any) error {
	return &hinted{err, fmt.Sprintf(format, args...)}
}

// Unwrap returns the problem.
func (h *hinted) Unwrap() error { return h.error }

// Hints implements [Hinted].
func (h *hinted) Hints() []string { return []string{h.hint} }

// Hinted is implemented by errors that have hints.
type Hinted interface{ Hints() []string }

// All returns the hints of an error and of what it wraps: the hint closest to
// the cause comes first.
func All(err error) []string {
	var all []string
	switch wraps := err.(type) {
	case interface{ Unwrap() error }:
		if inner := wraps.Unwrap(); inner != nil {
			all = All(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wraps.Unwrap() {
			all = append(all, All(inner)...)
		}
	}
	if own, is := err.(Hinted); is {
		all = append(all, own.Hints()...)
	}

	var once []string
	for _, hint := range all {
		if !slices.Contains(once, hint) {
			once = append(once, hint)
		}
	}
	return once
}

// Of returns the hints of an error as one text, for a field beside the problem;
// "" if it has no hints.
func Of(err error) string { return strings.Join(All(err), "; ") }

// inText is an error whose text has the hints. It has no Unwrap method, so that
// they are found only there.
type inText struct{ err error }

// InText returns an error whose text has the hints, for callers that show only
// the text; nil for nil. [Text] does not repeat them.
func InText(err error) error {
	if err == nil {
		return nil
	}
	return inText{err}
}

func (t inText) Error() string { return Text(t.err) }

// Is is for [errors.Is].
func (t inText) Is(target error) bool { return errors.Is(t.err, target) }

// As is for [errors.As].
func (t inText) As(target any) bool { return errors.As(t.err, target) }

// Text returns an error for an operator's terminal: the problem, and each hint
// on a line of its own. Each error of [errors.Join] is followed by its own
// hints.
func Text(err error) string {
	_, own := err.(Hinted)
	if joined, is := err.(interface{ Unwrap() []error }); is && !own {
		var problems, texts []string
		for _, part := range joined.Unwrap() {
			problems = append(problems, part.Error())
			texts = append(texts, Text(part))
		}
		if err.Error() == strings.Join(problems, "\n") {
			return strings.Join(texts, "\n")
		}
	}
	return strings.Join(append([]string{err.Error()}, All(err)...), "\nhint: ")
}

// Line returns an error for a list or a log: the problem and the hints on one
// line, if the problem has only one.
func Line(err error) string {
	return strings.Join(append([]string{err.Error()}, All(err)...), "; hint: ")
}

// Sprintf formats a message for an operator: the hints of the errors among args
// follow it.
func Sprintf(format string, args ...any) string {
	lines := []string{fmt.Sprintf(format, args...)}
	for _, arg := range args {
		if err, is := arg.(error); is {
			lines = append(lines, All(err)...)
		}
	}
	return strings.Join(lines, "\nhint: ")
}
