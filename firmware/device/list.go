// Package device lists the files that devices need before they work: the
// firmware that drivers load, and the microcode of processors.
package device

import (
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Dir is where the kernel looks for firmware, in a root directory.
const Dir = "usr/lib/firmware"

// Entry is a set of files that an image has.
type Entry struct {
	// Package is the Debian package with the files.
	Package string
	// Pattern is a path.Match pattern of their paths in Dir.
	Pattern string
	// KiB is the size of all of them, rounded up.
	KiB int64
	// Arch is the only architecture that needs the files; "" means all.
	Arch string
}

// Without is a set of files that drivers name, and that an image does not have.
type Without struct{ Pattern, Reason string }

// List has the files that an image has, and those that it leaves out.
type List struct {
	Entries []Entry
	Without []Without
}

//go:embed firmware.list
var metal string

// Metal is the list of images for metal. Images for virtual machines need no
// firmware.
func Metal(arch string) (List, error) {
	l, err := Parse(metal)
	if err != nil {
		return List{}, fmt.Errorf("firmware.list: %w", err)
	}
	l.Entries = slices.DeleteFunc(l.Entries, func(e Entry) bool {
		return e.Arch != "" && e.Arch != arch
	})
	return l, nil
}

// Parse reads a list: its format is in firmware.list.
func Parse(text string) (List, error) {
	var l List
	number := 0
	for line := range strings.Lines(text) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if err := l.add(words); err != nil {
			return List{}, fmt.Errorf("line %d: %w", number, err)
		}
	}

	return l, nil
}

func (l *List) add(words []string) error {
	if len(words) < 3 {
		return fmt.Errorf("%q: want PACKAGE FILES KIB [ARCH], or without FILES REASON", words)
	}
	if _, err := path.Match(words[1], ""); err != nil {
		return fmt.Errorf("%s: %w", words[1], err)
	}

	if words[0] == "without" {
		l.Without = append(l.Without, Without{words[1], strings.Join(words[2:], " ")})
		return nil
	}

	size, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil || len(words) > 4 {
		return fmt.Errorf("%q: want PACKAGE FILES KIB [ARCH]", words)
	}

	e := Entry{Package: words[0], Pattern: words[1], KiB: size}
	if len(words) == 4 {
		e.Arch = words[3]
	}

	l.Entries = append(l.Entries, e)
	return nil
}

// Packages are the names of the packages, each once.
func (l List) Packages() []string {
	var names []string
	for _, e := range l.Entries {
		names = append(names, e.Package)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Has reports whether the list has the file, by its path in Dir.
func (l List) Has(file string) bool {
	return slices.ContainsFunc(l.Entries, func(e Entry) bool { return match(e.Pattern, file) })
}

// LeavesOut reports whether the list says why the image does not have the file.
func (l List) LeavesOut(file string) bool {
	return slices.ContainsFunc(l.Without, func(w Without) bool { return match(w.Pattern, file) })
}

// match takes only patterns that Parse has taken.
func match(pattern, file string) bool {
	ok, _ := path.Match(pattern, file)
	return ok
}
