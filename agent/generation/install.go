package generation

import (
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/unitfile"
)

// unitDir is the directory of the generation's units and links. It precedes the
// image's own directory in systemd's search path.
const unitDir = "/etc/systemd/system"

// refusal returns the first of the faults for which a unit is refused, nil if
// there is none.
func refusal(unit string, faults []unitfile.Fault) error {
	for _, fault := range faults {
		if fault.Refused {
			return &Error{Unit: unit, Problem: "[Install] " + fault.String(), Hint: fault.Hint}
		}
	}
	return nil
}

// environmentFiles returns the glob(7) patterns of EnvironmentFile= in the
// settings of unit name, without the "-" that makes a file optional. A pattern
// that depends on the machine is left out.
func environmentFiles(s unitfile.Settings, name string) []string {
	var files []string
	for _, value := range s.Values("Service", "EnvironmentFile") {
		if file, ok := unitfile.Expand(strings.TrimPrefix(value, "-"), name); ok {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}
