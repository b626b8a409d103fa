// Package osc reads an OperatingSystemConfig, Gardener's description of a node:
// Decode is strict, Validate checks every field and Merge turns the document
// into the node's desired state. All of it is pure. Nothing in a document is
// dropped in silence: what cannot be carried out is an error that names it.
package osc

import "github.com/loam-os/loam/agent/document"

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
