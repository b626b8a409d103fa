package agent

import (
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/test/files"
)

// TestARepairReadsMachineYAML, which says whether the state may be erased, before
// there is a state or an engine.
func TestARepairReadsMachineYAML(t *testing.T) {
	const head = "apiVersion: loam.dev/v1alpha1\nkind: Machine\n"
	for text, want := range map[string]bool{
		"":                                   false,
		head:                                 false,
		head + "state: {onDamage: reset}\n":  true,
		head + "state: {onDamage: keep}}}\n": false,
	} {
		n := unidentified(t)
		if text != "" {
			files.Write(t, filepath.Join(n.Root, source.RunPath), text)
		}
		n.engine = nil

		got, err := (&repairSystem{node: n.node}).Resets(t.Context())
		if got != want || (err != nil) != (text == head+"state: {onDamage: keep}}}\n") {
			t.Errorf("%q: %t, %v", text, got, err)
		}
	}
}
