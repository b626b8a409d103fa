package osc

import (
	"slices"

	"github.com/loam-os/loam/agent/config"
)

// Update returns what the document asks for besides files and units, or nil.
func (o OperatingSystemConfig) Update() *config.Update { return o.Spec.InPlaceUpdates.desired() }

// Inline returns the text that the document itself has for the file name of a
// node. It is nil if the document has none or it cannot be decoded.
func (o OperatingSystemConfig) Inline(name, hostname string) []byte {
	for _, f := range slices.Backward(o.files()) { // The last file with a path counts.
		if f.value.Path != name || f.value.Content.Inline == nil ||
			!f.value.isFor(Env{Hostname: hostname}) {
			continue
		}
		if text, err := f.value.Content.Inline.decode(); err == nil {
			return text
		}
	}
	return nil
}
