package unitfile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/unitfile"
	"github.com/loam-os/loam/test/container"
)

func TestUnitsThatHoldUpTheAgentAreReserved(t *testing.T) {
	for name, want := range map[string]bool{
		"loam-agent.service":             true,
		"loam-.service":                  true,
		"loam.slice":                     true,
		"systemd-journald.socket":        true,
		"systemd-tmpfiles-setup.service": true,
		"systemd-tmpfiles-.service":      true,
		"systemd-.service":               true,
		"systemd-.socket":                true,

		"loamy.service":                      false,
		"systemd-journald.service":           false,
		"systemd-tmpfiles-setup-dev.service": false,
		"systemd-.timer":                     false,
		"kubelet.service":                    false,
	} {
		if got := unitfile.IsReserved(name); got != want {
			t.Errorf("%s is reserved: %v, want %v", name, got, want)
		}
	}
}

// perpetual are there as long as PID 1 is: nothing waits for them.
var perpetual = []string{"-.mount", "-.slice", "system.slice"}

// Everything that the agent starts after is reserved, or there before any unit of a
// configuration, as systemd itself says.
func TestTheAgentWaitsForReservedUnitsOnly(t *testing.T) {
	container.Run(t, func(t *testing.T, c *container.Container) {
		waits := []string{"loam-agent.service"}
		for i := 0; i < len(waits); i++ {
			show := c.Command(t, "systemctl", "show", "--property=After", "--value", "--", waits[i])
			for unit := range strings.FieldsSeq(show) {
				if !slices.Contains(waits, unit) {
					waits = append(waits, unit)
				}
			}
		}

		if len(waits) < 3 {
			t.Fatalf("the agent waits for %q only", waits)
		}
		for _, unit := range waits {
			if !slices.Contains(perpetual, unit) && !unitfile.IsReserved(unit) {
				t.Errorf("the agent waits for %s, which a configuration can hold up", unit)
			}
		}
	})
}
