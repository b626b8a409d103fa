package live

import (
	"errors"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/hint"
)

// TestNobodyOnTheNetworkWipesADisk, unless the maker of the image allows it.
func TestNobodyOnTheNetworkWipesADisk(t *testing.T) {
	root := "roothash=" + strings.Repeat("ab", 32)
	for _, test := range []struct {
		name, line, wipe string
		refused          bool
	}{
		{"over the network", root, "S1", true},
		{"over the network, onto an empty disk", root, "", false},
		{"over the network, and it is allowed", root + " loam.wipe=network", "S1", false},
		{"from a USB installer", root + " loam.from=stick", "S1", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := ParseParams(test.line)
			if err != nil {
				t.Fatal(err)
			}

			err = p.mayWipe(machine.Install{Wipe: test.wipe}, "http://192.0.2.1:8080")
			if errors.Is(err, errUnauthenticated) != test.refused || (err != nil) != test.refused {
				t.Fatalf("%v", err)
			}
			if test.refused && (!strings.HasPrefix(hint.Text(err),
				"wipe-not-authenticated: machine.yaml from http://192.0.2.1:8080 ") ||
				!strings.Contains(hint.Text(err), "\nhint: install from a USB stick")) {
				t.Errorf("%v", err)
			}
		})
	}

	if _, err := ParseParams(root + " loam.wipe=S1"); err == nil ||
		!strings.Contains(err.Error(), "want network") {
		t.Errorf("another value: %v", err)
	}
}
