package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Whole is the path of an error about the document and no field of it.
const Whole = "document"

// maxErrors is how many errors are shown of a document that has more.
const maxErrors = 100

// Origin says where in which file each field of a decoded value stood. The
// zero Origin knows nothing.
type Origin struct {
	file string
	at   map[string]position
}

// position is from 1, or 0 if unknown. block marks text that begins on the line
// after it, as it stands (YAML's |).
type position struct {
	line, column int
	block        bool
}

// locate finds path or, for a field that is not in the document, the nearest
// field around it.
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

// Report collects what is wrong with one document. The zero Report is for a
// value that came from no document.
type Report struct {
	origin Origin
	errs   Errors
}

// NewReport is an empty report on a value decoded with that origin.
func NewReport(origin Origin) *Report { return &Report{origin: origin} }

// Add notes that something is wrong at path; hint may be empty.
func (r *Report) Add(path, problem, hint string) {
	r.addAt(r.origin.locate(path), path, problem, hint)
}

// Addf is Add with a formatted problem.
func (r *Report) Addf(path, hint, format string, args ...any) {
	r.Add(path, fmt.Sprintf(format, args...), hint)
}

// AddLine is Add for something on a line, from 1, of the text at path.
func (r *Report) AddLine(path string, line int, problem, hint string) {
	at := r.origin.locate(path)
	if at.block {
		at.line, at.column = at.line+line, 0
	}
	r.addAt(at, path, fmt.Sprintf("line %d: %s", line, problem), hint)
}

func (r *Report) addAt(at position, path, problem, hint string) {
	r.errs = append(r.errs, Error{
		File: r.origin.file, Line: at.line, Column: at.column,
		Path: path, Problem: problem, Hint: hint,
	})
}

// Header checks the two fields every document begins with.
func (r *Report) Header(apiVersion, kind, wantVersion, wantKind string) {
	if apiVersion != wantVersion {
		r.Addf("apiVersion", "write apiVersion: "+wantVersion, "%s is not known here", orEmpty(apiVersion))
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

// Err is nil if nothing is wrong, else Errors in the order of the document, at
// most 100 of them and then one that says so.
func (r *Report) Err() error {
	if len(r.errs) == 0 {
		return nil
	}
	errs := slices.Clone(r.errs)
	slices.SortStableFunc(errs, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if more := len(errs) - maxErrors; more > 0 {
		errs = append(errs[:maxErrors], Error{
			File: r.origin.file, Path: Whole, Problem: fmt.Sprintf("%d more errors", more),
		})
	}
	return errs
}
