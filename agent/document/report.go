package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Whole is the path of an error about the entire document.
const Whole = "document"

// maxErrors limits the errors, and the warnings, that are shown of one
// document. maxKept limits the warnings that are collected.
const (
	maxErrors = 100
	maxKept   = 10 * maxErrors
)

// Origin knows in which file and where each field of a decoded value stood. The
// zero Origin knows nothing.
type Origin struct {
	file string
	at   map[string]position
}

// position counts from 1; 0 is unknown. block marks text that begins on the
// next line, verbatim (YAML's |), null a field that is there without a value, and
// notation a whole number that is not written as JSON has it.
type position struct {
	line, column          int
	block, null, notation bool
}

// locate returns the position of path or, for a field that is not in the
// document, of the nearest field around it.
func (o Origin) locate(path string) position {
	for {
		if at, ok := o.at[path]; ok {
			return at
		}
		end := strings.LastIndexAny(path, ".[")
		if end < 0 {
			return o.at[Whole]
		}
		path = path[:end]
	}
}

// locateLine returns the position of a line, from 1, of the text at path.
func (o Origin) locateLine(path string, line int) position {
	at := o.locate(path)
	if at.block {
		at.line += line
		at.column = 0
	}
	return at
}

// Report collects the problems of one document. The zero Report is for a value
// without a document.
type Report struct {
	origin         Origin
	errs, warnings Errors
	// dropped counts the warnings that are not in warnings.
	dropped int
}

// NewReport returns an empty report on a value decoded with that origin.
func NewReport(origin Origin) *Report { return &Report{origin: origin} }

// Add reports an error at path; hint may be empty.
func (r *Report) Add(path, problem, hint string) {
	r.addAt(r.origin.locate(path), path, problem, hint)
}

// Addf is Add with a formatted problem.
func (r *Report) Addf(path, hint, format string, args ...any) {
	r.Add(path, fmt.Sprintf(format, args...), hint)
}

// Warn reports something at path that a lenient reader accepts; hint may be
// empty.
func (r *Report) Warn(path, problem, hint string) {
	r.warnAt(r.origin.locate(path), path, problem, hint)
}

// Warnf is Warn with a formatted problem.
func (r *Report) Warnf(path, hint, format string, args ...any) {
	r.Warn(path, fmt.Sprintf(format, args...), hint)
}

// AddLine is Add for a line, from 1, of the text at path.
func (r *Report) AddLine(path string, line int, problem, hint string) {
	r.addAt(r.origin.locateLine(path, line), path, atLine(line, problem), hint)
}

// WarnLine is Warn for a line, from 1, of the text at path.
func (r *Report) WarnLine(path string, line int, problem, hint string) {
	r.warnAt(r.origin.locateLine(path, line), path, atLine(line, problem), hint)
}

func atLine(line int, problem string) string { return fmt.Sprintf("line %d: %s", line, problem) }

func (r *Report) addAt(at position, path, problem, hint string) {
	r.errs = append(r.errs, r.finding(at, path, problem, hint))
}

func (r *Report) warnAt(at position, path, problem, hint string) {
	if r.full() {
		r.dropped++
		return
	}
	warning := r.finding(at, path, problem, hint)
	warning.Warning = true
	r.warnings = append(r.warnings, warning)
}

// full reports whether further warnings are only counted.
func (r *Report) full() bool { return len(r.warnings) >= maxKept }

func (r *Report) finding(at position, path, problem, hint string) Error {
	return Error{
		File:    r.origin.file,
		Line:    at.line,
		Column:  at.column,
		Path:    path,
		Problem: problem,
		Hint:    hint,
	}
}

// Given reports whether the document has a value at path: also an empty one, such
// as {}, but not null.
func (r *Report) Given(path string) bool {
	at, ok := r.origin.at[path]
	return ok && !at.null
}

// HasNotation reports whether the document has at path a whole number in a notation
// of YAML that JSON does not know, such as 0x10, 010 or 1_0.
func (r *Report) HasNotation(path string) bool { return r.origin.at[path].notation }

// Duration reads the duration at path, written as 90s or 1h30m, and reports text that is
// none, or is less than least. It returns false for such text.
func (r *Report) Duration(path, text string, least time.Duration) (time.Duration, bool) {
	d, err := time.ParseDuration(text)
	if err != nil || d < least {
		r.Addf(path, "write one such as 10m or 36h", "%s is not a duration of %s to 292 years",
			Quote(text), least)
		return 0, false
	}
	return d, true
}

// Len returns how much has been reported, to find out whether a check finds
// anything.
func (r *Report) Len() int { return len(r.errs) + len(r.warnings) + r.dropped }

// Header checks apiVersion and kind, with which every document begins.
func (r *Report) Header(apiVersion, kind, wantVersion, wantKind string) {
	if apiVersion != wantVersion {
		r.Addf("apiVersion", "write apiVersion: "+wantVersion, "%s is not known here",
			orEmpty(apiVersion))
	}
	if kind != wantKind {
		r.Addf("kind", "write kind: "+wantKind, "%s is not known here", orEmpty(kind))
	}
}

func orEmpty(text string) string {
	if text == "" {
		return "an empty value"
	}
	return Quote(text)
}

// Err returns nil if nothing is wrong, and otherwise Errors in the order of the
// document: at most 100 errors and 100 warnings, each followed by the number of
// those left out.
func (r *Report) Err() error {
	if len(r.errs)+len(r.warnings) == 0 {
		return nil
	}

	errs, moreErrs := inOrder(r.errs)
	warnings, moreWarnings := inOrder(r.warnings)
	all := append(errs, warnings...)
	slices.SortStableFunc(all, byPlace)

	if moreErrs > 0 {
		all = append(all, r.finding(position{}, Whole, fmt.Sprintf("%d more errors", moreErrs), ""))
	}

	moreWarnings += r.dropped
	if moreWarnings > 0 {
		more := r.finding(position{}, Whole, fmt.Sprintf("%d more warnings", moreWarnings), "")
		more.Warning = true
		all = append(all, more)
	}

	return all
}

// inOrder returns a copy of errs in the order of the document, cut to
// maxErrors, and the number of those left out.
func inOrder(errs Errors) (Errors, int) {
	errs = slices.Clone(errs)
	slices.SortStableFunc(errs, byPlace)
	shown := min(len(errs), maxErrors)
	return errs[:shown], len(errs) - shown
}

func byPlace(a, b Error) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}
