// Package power observes the power supplies of the machine, from sysfs
// (Documentation/ABI/testing/sysfs-class-power).
package power

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

const dir = "class/power_supply"

// State is how the machine is powered. The zero State is a machine without a
// battery.
type State struct {
	// OnBattery is set if the battery is the only supply.
	OnBattery bool
	// Charge of the fullest battery, in percent; negative if unknown.
	Charge int
}

// Observe reads the power supplies. sys is sysfs. Batteries of devices, such as
// mice, do not count.
func Observe(sys fs.FS) (State, error) {
	names, err := fs.ReadDir(sys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}

	if err != nil {
		return State{}, fmt.Errorf("power supplies: %w", err)
	}

	s := State{Charge: -1}
	var batteries, discharging, others, online bool
	for _, n := range names {
		read := func(attribute string) string {
			// A missing attribute is no information.
			text, _ := fs.ReadFile(sys, path.Join(dir, n.Name(), attribute))
			return strings.TrimSpace(string(text))
		}
		switch {
		case read("scope") == "Device" || read("present") == "0":
		case read("type") == "Battery":
			batteries = true
			discharging = discharging || read("status") == "Discharging"
			if charge, err := strconv.Atoi(read("capacity")); err == nil {
				s.Charge = max(s.Charge, charge)
			}
		default:
			others = true
			online = online || (read("online") != "" && read("online") != "0")
		}
	}

	s.OnBattery = batteries && !online && (discharging || others)
	if !batteries {
		return State{}, nil
	}

	return s, nil
}
