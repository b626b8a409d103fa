package osc

import (
	"cmp"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
)

// Decode reads an OperatingSystemConfig from YAML or JSON. Errors are of type
// document.Errors and name the document as given. What could be read is in the
// value even then. Validate checks the values.
func Decode(name string, text []byte) (OperatingSystemConfig, error) {
	var osc OperatingSystemConfig
	origin, err := document.DecodeWithOrigin(name, text, &osc)
	osc.origin = origin

	// Of another kind of document every field would be unknown.
	_, refusal := document.Lenient(err)
	if refusal == nil || osc.APIVersion != "" && osc.Kind != "" {
		report := document.NewReport(origin)
		report.Header(osc.APIVersion, osc.Kind, APIVersion, Kind)
		if headerErr := report.Err(); headerErr != nil {
			return osc, headerErr
		}
	}

	spelling := document.NewReport(origin)
	osc.spell(spelling)
	return osc, both(err, spelling.Err())
}

// both are the errors of two reports, in the order of the document.
func both(a, b error) error {
	var all document.Errors
	for _, err := range []error{a, b} {
		errs, ok := err.(document.Errors)
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

// byLine orders errors by their lines; those without one come last.
func byLine(a, b document.Error) int { return cmp.Compare(uint(a.Line-1), uint(b.Line-1)) }

// Check is everything wrong with a document: what Decode said of it, and what
// Validate says of all that could be decoded. A value that could not is not
// said to be missing as well.
func Check(decoded error, asked OperatingSystemConfig, env Env) error {
	wrong, ok := decoded.(document.Errors)
	if decoded != nil && (!ok || asked.APIVersion != APIVersion || asked.Kind != Kind) {
		return decoded
	}

	err := Validate(asked, env)
	more, ok := err.(document.Errors)
	if err != nil && !ok {
		return err
	}

	return both(wrong, unsaid(more, wrong))
}

// unsaid are those of more that are not about a field, or what is in one, that
// has an error in wrong.
func unsaid(more, wrong document.Errors) document.Errors {
	return slices.DeleteFunc(more, func(e document.Error) bool {
		return slices.ContainsFunc(wrong, func(w document.Error) bool {
			within := strings.HasPrefix(e.Path, w.Path+".") || strings.HasPrefix(e.Path, w.Path+"[")
			return !w.Warning && (e.Path == w.Path || within)
		})
	})
}
