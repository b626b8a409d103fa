package osc

import (
	"slices"

	"github.com/loam-os/loam/agent/config"
)

// Update is what the document asks for beyond files and units, nil for nothing.
func (o OperatingSystemConfig) Update() *config.Update { return o.Spec.InPlaceUpdates.desired() }

// Inline is the text that the document itself has for the file name of a node,
// nil for none, or for one that cannot be decoded.
func (o OperatingSystemConfig) Inline(name, hostname string) []byte {
	for _, f := range slices.Backward(o.files()) { // The last of one path counts.
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
