package osc

import "github.com/loam-os/loam/agent/document"

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
	if refusal == nil || (osc.APIVersion != "" && osc.Kind != "") {
		report := document.NewReport(origin)
		report.Header(osc.APIVersion, osc.Kind, APIVersion, Kind)
		if headerErr := report.Err(); headerErr != nil {
			return osc, headerErr
		}
	}

	spelling := document.NewReport(origin)
	osc.spell(spelling)
	return osc, document.Merge(err, spelling.Err())
}

// Check returns everything that is wrong with a document: the errors of Decode,
// and those of Validate for all that could be decoded. A value that could not
// be decoded is not reported as missing as well.
func Check(decoded error, osc OperatingSystemConfig, env Env) error {
	_, ok := decoded.(document.Errors)
	if decoded != nil && (!ok || osc.APIVersion != APIVersion || osc.Kind != Kind) {
		return decoded
	}

	return document.MergeChecked(decoded, Validate(osc, env))
}
