package osc

import (
	"cmp"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
)

// Decode reads an OperatingSystemConfig from YAML or JSON. Errors are of type
// document.Errors and name the document as given; the value then has everything
// that could be decoded. Validate checks the values.
func Decode(name string, text []byte) (OperatingSystemConfig, error) {
	return DecodeNext(&document.Parser{}, name, text)
}

// DecodeNext is Decode for a version of the document that parser decodes. text
// must not change afterwards.
func DecodeNext(
	parser *document.Parser, name string, text []byte,
) (OperatingSystemConfig, error) {
	var osc OperatingSystemConfig
	origin, err := parser.Decode(name, text, &osc)
	osc.origin = origin

	// In another kind of document every field would be unknown.
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

// both returns the errors of two reports in the order of the document.
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

// byLine orders errors by line; errors without a line come last.
func byLine(a, b document.Error) int { return cmp.Compare(uint(a.Line-1), uint(b.Line-1)) }

// Check returns everything that is wrong with a document: the errors of Decode,
// and those of Validate for all that could be decoded. A value that could not
// be decoded is not reported as missing as well.
func Check(decoded error, osc OperatingSystemConfig, env Env) error {
	wrong, ok := decoded.(document.Errors)
	if decoded != nil && (!ok || osc.APIVersion != APIVersion || osc.Kind != Kind) {
		return decoded
	}

	err := Validate(osc, env)
	more, ok := err.(document.Errors)
	if err != nil && !ok {
		return err
	}

	return both(wrong, notReported(more, wrong))
}

// notReported returns the errors of more that do not repeat an error of wrong:
// neither their field nor a field inside it has one there.
func notReported(more, wrong document.Errors) document.Errors {
	return slices.DeleteFunc(more, func(e document.Error) bool {
		return slices.ContainsFunc(wrong, func(w document.Error) bool {
			within := strings.HasPrefix(e.Path, w.Path+".") || strings.HasPrefix(e.Path, w.Path+"[")
			return !w.Warning && (e.Path == w.Path || within)
		})
	})
}
