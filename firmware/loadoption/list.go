package loadoption

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"

	"github.com/loam-os/loam/firmware/efivar"
)

var variable = regexp.MustCompile(`^Boot([0-9A-F]{4})-` + efivar.Global + `$`)

// List returns the options of the firmware's boot menu by number. sys is sysfs.
// A machine without variables has none. An option that cannot be read has no
// value, but its number is taken.
func List(sys fs.FS) (map[uint16][]byte, error) {
	entries, err := fs.ReadDir(sys, efivar.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list EFI variables: %w", err)
	}

	options := map[uint16][]byte{}
	for _, e := range entries {
		m := variable.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}

		number, err := strconv.ParseUint(m[1], 16, 16)
		if err != nil {
			return nil, fmt.Errorf("EFI variable %s: %w", e.Name(), err)
		}

		option, err := efivar.Read(sys, "Boot"+m[1], efivar.Global)
		if err != nil {
			option = nil
		}
		options[uint16(number)] = option
	}

	return options, nil
}
