package show

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Verdict is what the check of a document found.
type Verdict struct {
	// Path is the file or the directory, as on the command line.
	Path string `json:"path"`

	// Valid says that a node accepts the document.
	Valid bool `json:"valid"`

	// Summary says in sentences what a valid document does, as far as the check
	// describes that.
	Summary []string `json:"summary,omitempty"`

	// Faults are why the document is not valid.
	Faults []Fault `json:"faults,omitempty"`

	// Warnings are what nodes accept from a cluster, but not from a file.
	Warnings []Fault `json:"warnings,omitempty"`
}

// Fault is one thing that is wrong.
type Fault struct {
	// Document is the file in which the fault is. It may be in a directory.
	Document string `json:"document,omitempty"`
	// Line is the line in it, from 1; absent if it is unknown.
	Line int `json:"line,omitempty"`

	// Path is the field, such as spec.units[2].name, absent for a fault that is
	// not in a field, such as a file that cannot be read.
	Path string `json:"path,omitempty"`

	// Problem is what is wrong.
	Problem string `json:"problem"`
	// Hint is what to do about it.
	Hint string `json:"hint,omitempty"`

	// Code names the kind of fault; docs/reference/errors.md has all codes.
	Code fault.Code `json:"code"`
}

// String returns the verdict on a valid document, in a line and one more for
// each sentence of its summary.
func (v Verdict) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: valid", v.Path)
	if len(v.Warnings) > 0 {
		fmt.Fprintf(&out, " from a cluster, warnings: %d", len(v.Warnings))
	}
	out.WriteByte('\n')
	for _, sentence := range v.Summary {
		fmt.Fprintf(&out, "  %s\n", sentence)
	}
	return out.String()
}

// Faults returns what is wrong according to an error, one by one.
func Faults(err error) []Fault {
	if err == nil {
		return nil
	}

	var common Fault // has the hint and the code around several errors
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if hinted, is := inner.(hint.Hinted); is {
			common.Hint = strings.Join(hinted.Hints(), "; ")
		}
		if coder, is := inner.(fault.Coder); is {
			common.Code = coder.FaultCode()
		}

		switch e := inner.(type) {
		case document.Errors:
			all := make([]Fault, len(e))
			for i, one := range e {
				all[i] = inDocument(one)
			}
			return all
		case document.Error:
			return []Fault{inDocument(e)}
		case interface{ Unwrap() []error }:
			if isJoined(inner, e.Unwrap()) {
				return split(e.Unwrap(), common)
			}
		}
	}

	whole := Fault{Problem: err.Error(), Code: fault.Of(err)}
	whole.Hint = hint.Of(err)
	return []Fault{whole}
}

// isJoined reports whether parts have a line each in err, as with [errors.Join].
// Otherwise they are in one sentence.
func isJoined(err error, parts []error) bool {
	lines := make([]string, len(parts))
	for i, part := range parts {
		lines[i] = part.Error()
	}
	return strings.Join(lines, "\n") == err.Error()
}

// split returns the faults of parts. A part without a hint or a code of its own has
// the common one.
func split(parts []error, common Fault) []Fault {
	var all []Fault
	for _, part := range parts {
		for _, f := range Faults(part) {
			f.Hint = cmp.Or(f.Hint, common.Hint)
			if !f.Code.IsSpecific() {
				f.Code = cmp.Or(common.Code, f.Code)
			}
			all = append(all, f)
		}
	}
	return all
}

func inDocument(e document.Error) Fault {
	f := Fault{
		Document: e.File,
		Line:     e.Line,
		Path:     e.Path,
		Problem:  e.Problem,
		Hint:     e.Hint,
	}
	f.Code = e.FaultCode()
	return f
}
