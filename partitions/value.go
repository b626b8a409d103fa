package partitions

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/loam-os/loam/hint"
)

// set takes one assignment.
func (d *Definition) set(key, value string) (err error) {
	switch key {
	case "Type":
		d.Role, err = parseRole(value)
	case "Label":
		d.Label = value
	case "Format":
		d.Format = value
	case "SizeMinBytes":
		d.SizeMin, err = parseSize(value)
	case "SizeMaxBytes":
		d.SizeMax, err = parseSize(value)
	case "ReadOnly":
		d.ReadOnly, err = parseBool(value)
	case "NoAuto":
		d.NoAuto, err = parseBool(value)
	case "GrowFileSystem":
		d.GrowFileSystem, err = parseBool(value)
	default:
		return hint.With(fmt.Errorf("unknown key %s", key),
			"known are Type, Label, Format, SizeMinBytes, SizeMaxBytes, ReadOnly, "+
				"NoAuto, GrowFileSystem")
	}

	if err != nil {
		return fmt.Errorf("%s=%s: %w", key, value, err)
	}
	return nil
}

func parseRole(s string) (Role, error) {
	known := []Role{ESP, Root, RootVerity, RootVeritySig, State}
	if !slices.Contains(known, Role(s)) {
		return "", hint.With(errors.New("unknown type"), "known are %q", known)
	}
	return Role(s), nil
}

// parseSize reads bytes with the suffix K, M, G or T, powers of 1024. Sizes are
// multiples of 1 MiB.
func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "KMGT")
	shift := 0
	if unit := s[len(digits):]; len(unit) > 1 {
		return 0, fmt.Errorf("unit %s: want K, M, G or T", unit)
	} else if unit != "" {
		shift = 10 * (1 + strings.Index("KMGT", unit))
	}

	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, err
	}
	if n <= 0 || n > (1<<50)>>shift || n<<shift%(1<<20) != 0 {
		return 0, fmt.Errorf("want whole MiB, 1M to 1024T")
	}

	return n << shift, nil
}

func parseBool(s string) (bool, error) {
	switch s {
	case "1", "yes", "true", "on":
		return true, nil
	case "0", "no", "false", "off":
		return false, nil
	}
	return false, fmt.Errorf("want yes or no")
}
