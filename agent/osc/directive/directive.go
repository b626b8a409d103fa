// Package directive has the names of all directives in unit files that the
// systemd of the image knows, by section. systemd ignores others with a warning
// in its log, and so a unit with a typing error runs without what it asks for.
//
// [Fault] judges the values of those whose values can be judged away from the
// node, as systemd does: a test gives each directive some hundred values, and
// compares the verdicts with those of systemd-analyze.
//
// systemd itself prints the names. A test compares them, and `make golden`
// writes the names of another version.
package directive

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/loam-os/loam/agent/document"
)

// text is the output of `systemd --dump-configuration-items` without the types
// of the values, sorted.
//
//go:embed systemd.txt
var text string

// table has the sorted names of the directives of each section.
var table = sync.OnceValue(func() map[string][]string { return Parse(text) })

// Parse reads the output of `systemd --dump-configuration-items`.
func Parse(text string) map[string][]string {
	sections := map[string][]string{}
	section := ""
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case name == "":
		case strings.HasPrefix(name, "["):
			section = strings.Trim(name, "[]")
			sections[section] = nil
		default:
			sections[section] = append(sections[section], name)
		}
	}

	for _, names := range sections {
		slices.Sort(names)
	}
	return sections
}

// Known reports whether systemd knows the directive in that section. The names
// that begin with X- are the operator's own.
func Known(section, name string) bool {
	_, found := slices.BinarySearch(table()[section], name)
	return found || strings.HasPrefix(name, "X-")
}

// Nearest returns the directive that name probably means in the section, "" if
// none is near.
func Nearest(section, name string) string { return document.Nearest(name, table()[section]) }

// Elsewhere returns which of the sections knows the directive, "" if none.
func Elsewhere(name string, sections []string) string {
	at := slices.IndexFunc(sections, func(section string) bool { return Known(section, name) })
	if at < 0 {
		return ""
	}
	return sections[at]
}
