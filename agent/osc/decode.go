// Package osc reads an OperatingSystemConfig, Gardener's description of a node:
// Decode is strict, Validate checks every field and Merge turns the document
// into the node's desired state. All of it is pure. Nothing in a document is
// dropped in silence: what cannot be carried out is an error that names it.
package osc

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
)

// Decode reads an OperatingSystemConfig from YAML or JSON. Errors are of type
// document.Errors and name the document as given. Validate checks the values.
func Decode(name string, text []byte) (OperatingSystemConfig, error) {
	var osc OperatingSystemConfig
	origin, err := document.DecodeWithOrigin(name, text, &osc)
	osc.origin = origin
	// Of another kind of document every field would be unknown.
	if err == nil || osc.APIVersion != "" && osc.Kind != "" {
		report := document.NewReport(origin)
		report.Header(osc.APIVersion, osc.Kind, APIVersion, Kind)
		if headerErr := report.Err(); headerErr != nil {
			return osc, headerErr
		}
	}
	return osc, err
}

// Check is everything wrong with a document: what Decode said of it, and what
// Validate says of all that could be decoded.
func Check(decoded error, asked OperatingSystemConfig, env Env) error {
	var wrong document.Errors
	if decoded != nil && (!errors.As(decoded, &wrong) || asked.APIVersion != APIVersion || asked.Kind != Kind) {
		return decoded
	}
	var more document.Errors
	err := Validate(asked, env)
	if err != nil && !errors.As(err, &more) {
		return errors.Join(decoded, err)
	}
	for _, e := range more {
		known := func(w document.Error) bool {
			return e.Path == w.Path || strings.HasPrefix(e.Path, w.Path+".") || strings.HasPrefix(e.Path, w.Path+"[")
		}
		if !slices.ContainsFunc(wrong, known) {
			wrong = append(wrong, e)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.SortStableFunc(wrong, func(a, b document.Error) int { return cmp.Compare(a.Line, b.Line) })
	return wrong
}
