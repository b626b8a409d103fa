package document

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/redact"
)

// Error is one thing wrong with a document.
type Error struct {
	// File is the name the document was decoded under.
	File string `json:"file,omitempty"`
	// Line and Column are the place in the text, from 1; 0 means unknown.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Path is the field, such as "spec.units[2].name", or Whole.
	Path string `json:"path"`
	// Problem is the problem, Hint how to solve it ("" if unknown).
	Problem string `json:"problem"`
	Hint    string `json:"hint,omitempty"`
	// Warning is set if a lenient reader accepts the document nevertheless.
	Warning bool `json:"warning,omitempty"`
}

// Error returns a line: FILE:LINE: PATH: PROBLEM; hint: HINT.
func (e Error) Error() string {
	if e.Hint == "" {
		return e.WithoutHint()
	}
	return e.WithoutHint() + "; hint: " + e.Hint
}

// WithoutHint returns a line: FILE:LINE: PATH: PROBLEM.
func (e Error) WithoutHint() string {
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

// Merge returns the errors of two reports in the order of the document, nil for
// none.
func Merge(a, b error) error {
	var all Errors
	for _, err := range []error{a, b} {
		errs, ok := err.(Errors)
		if err != nil && !ok {
			return err
		}
		all = append(all, errs...)
	}
	if len(all) == 0 {
		return nil
	}

	slices.SortStableFunc(all, byLine)
	return all
}

// byLine orders errors by line; errors without a line come last.
func byLine(a, b Error) int { return cmp.Compare(uint(a.Line-1), uint(b.Line-1)) }

// MergeChecked is Merge for the errors of the decoder and of the check of what it
// has decoded. A value that could not be decoded is not reported as missing as
// well.
func MergeChecked(decoded, checked error) error {
	wrong, _ := decoded.(Errors)
	if more, is := checked.(Errors); is {
		checked = more.Except(wrong).err()
	}
	return Merge(decoded, checked)
}

// Except returns the errors of e that do not repeat an error of wrong: neither
// their field nor a field inside it has one there.
func (e Errors) Except(wrong Errors) Errors {
	return slices.DeleteFunc(slices.Clone(e), func(one Error) bool {
		return slices.ContainsFunc(wrong, func(w Error) bool {
			within := strings.HasPrefix(one.Path, w.Path+".") ||
				strings.HasPrefix(one.Path, w.Path+"[")
			return !w.Warning && (one.Path == w.Path || within)
		})
	})
}

// err returns e as an error, nil if none.
func (e Errors) err() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

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

var (
	// userinfo is the part of a URL before its host (RFC 3986, section 3.2).
	userinfo = regexp.MustCompile(`://[^/\s]*@`)
	// withoutScheme matches USER:PASSWORD@HOST:PORT, a URL whose scheme is forgotten.
	// An image with a tag and a digest is not one.
	withoutScheme = regexp.MustCompile(`^[^\s/:@]*:[^\s/]\S*(@[^\s/:@]+(:[0-9]*)?/?)$`)
)

// masked returns a text of a document to be shown: without who logs in with a URL,
// which may have a password, and without the secrets of bootstrap tokens.
func masked(text string) string {
	text = userinfo.ReplaceAllString(redact.URLs(text), "://…@")
	text = withoutScheme.ReplaceAllString(text, "…${1}")
	return redact.Tokens(text)
}

// Quote quotes text and cuts it to 60 characters, so that a value from a
// document fits into an error. It masks secrets.
func Quote(text string) string {
	const most = 60
	text = masked(text)
	if runes := []rune(text); len(runes) > most {
		return fmt.Sprintf("%q…", string(runes[:most]))
	}
	return fmt.Sprintf("%q", text)
}
