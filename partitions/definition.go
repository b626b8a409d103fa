package partitions

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/loam-os/loam/hint"
)

//go:embed *.conf
var files embed.FS

// Definition is one partition of the layout, from one file.
type Definition struct {
	File           string // "21-root-a.conf"; the order of the names is the order on the disk
	Role           Role
	Label          string // with repart's specifiers: %M image ID, %A image version
	Format         string // file system that the builder makes: "vfat", or empty
	SizeMin        int64  // bytes
	SizeMax        int64  // bytes; 0: no limit, it takes the rest
	ReadOnly       bool
	NoAuto         bool
	GrowFileSystem bool
}

// Definitions are Loam's own, in the order of the disk.
func Definitions() ([]Definition, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("list partition definitions: %w", err)
	}

	var defs []Definition
	for _, e := range entries {
		text, err := files.ReadFile(e.Name())
		if err != nil {
			return nil, fmt.Errorf("read partition definition: %w", err)
		}

		d, err := Parse(e.Name(), text)
		if err != nil {
			return nil, err
		}

		defs = append(defs, d)
	}

	return defs, nil
}

// Parse reads a definition of the given file name: the part of repart.d(5) that
// Loam uses. Anything else is an error that names file and line.
func Parse(name string, text []byte) (Definition, error) {
	d := Definition{File: name}
	section := ""
	seen := []string{}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}

		at := fmt.Sprintf("%s:%d", name, i+1)
		if line[0] == '[' {
			section = line
			if section != "[Partition]" {
				return Definition{}, hint.With(fmt.Errorf("%s: section %s", at, line),
					"the one section is [Partition]")
			}
			continue
		}

		key, value, ok := strings.Cut(line, "=")
		key = strings.TrimSpace(key)
		value = strings.TrimSpace(value)

		switch {
		case section == "":
			return Definition{}, hint.With(fmt.Errorf("%s: %q before a section", at, line),
				"begin with [Partition]")
		case !ok:
			return Definition{}, fmt.Errorf("%s: %q: no '='", at, line)
		case slices.Contains(seen, key):
			return Definition{}, fmt.Errorf("%s: %s: given twice", at, key)
		}

		seen = append(seen, key)
		if err := d.set(key, value); err != nil {
			return Definition{}, fmt.Errorf("%s: %w", at, err)
		}
	}

	if err := d.check(); err != nil {
		return Definition{}, fmt.Errorf("%s: %w", name, err)
	}

	return d, nil
}

// check validates the definition after all its keys are set.
func (d Definition) check() error {
	switch {
	case d.Role == "":
		return fmt.Errorf("no Type=")
	case d.Label == "":
		return fmt.Errorf("no Label=")
	case d.SizeMin == 0:
		return fmt.Errorf("no SizeMinBytes=")
	case d.SizeMax != 0 && d.SizeMax != d.SizeMin:
		return hint.With(
			fmt.Errorf("SizeMaxBytes=%d is not SizeMinBytes=%d", d.SizeMax, d.SizeMin),
			"give both the same size, or no SizeMaxBytes= for what is left",
		)
	}
	return nil
}
