package document

import (
	"fmt"
	"strings"

	"github.com/loam-os/loam/hint/fault"
)

// Error is one thing wrong with a document.
type Error struct {
	// File is the name the document was decoded under.
	File string
	// Line and Column are the place in the text, from 1; 0 means unknown.
	Line, Column int
	// Path is the field, such as "spec.units[2].name", or Whole.
	Path string
	// Problem is what is wrong, Hint how to correct it ("" if unknown).
	Problem, Hint string
	// Warning is set if a lenient reader accepts the document nevertheless.
	Warning bool
}

// Error returns a line: FILE:LINE: PATH: PROBLEM; hint: HINT.
func (e Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ":")
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:", e.Line)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}

	b.WriteString(e.Path + ": " + e.Problem)
	if e.Hint != "" {
		b.WriteString("; hint: " + e.Hint)
	}

	return b.String()
}

// FaultCode implements [fault.Coder].
func (e Error) FaultCode() fault.Code { return fault.DocumentInvalid }

// Errors is everything wrong with a document, in the order of its lines. It is
// never empty if it is returned as an error.
type Errors []Error

// Error returns a line for each error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// FaultCode implements [fault.Coder].
func (e Errors) FaultCode() fault.Code { return fault.DocumentInvalid }

// Lenient splits an error of this package for a lenient reader into warnings,
// which are only reported, and a refusal. refusal is nil if there are only
// warnings, and err itself if it is not an Errors.
func Lenient(err error) (warnings Errors, refusal error) {
	all, ok := err.(Errors)
	if !ok {
		return nil, err
	}

	var refused Errors
	for _, one := range all {
		if one.Warning {
			warnings = append(warnings, one)
		} else {
			refused = append(refused, one)
		}
	}

	if len(refused) > 0 {
		refusal = refused
	}

	return warnings, refusal
}

// Quote quotes text and cuts it to 60 characters, so that a value from a
// document fits into an error.
func Quote(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		return fmt.Sprintf("%q…", string(runes[:most]))
	}
	return fmt.Sprintf("%q", text)
}
