package unitfile

import (
	"slices"
	"strings"
)

// Setting is an assignment in a section of a unit file.
type Setting struct{ Section, Name, Value string }

// Settings are the settings of a unit, in the order in which systemd reads them.
type Settings []Setting

// Parse returns the settings of a unit's texts: its file and its drop-ins. Each
// text begins outside of all sections.
func Parse(texts ...string) Settings {
	var all Settings
	for _, text := range texts {
		for line := range Lines(text) {
			name, value, ok := line.Assignment()
			if ok && !line.IsSection() {
				all = append(all, Setting{line.Section, name, value})
			}
		}
	}
	return all
}

// Values returns the values of a directive since its last empty one, which
// resets a list.
func (s Settings) Values(section, name string) []string {
	var values []string
	for _, setting := range s {
		switch {
		case setting.Section != section || setting.Name != name:
		case setting.Value == "":
			values = nil
		default:
			values = append(values, setting.Value)
		}
	}
	return values
}

// Last returns the value that counts of a directive that takes one, "" if it has
// none.
func (s Settings) Last(section, name string) string {
	values := s.Values(section, name)
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// Names returns the names of units in a list that an empty value resets, as do
// those of [Install]. systemd ignores a line with a quote that is not closed.
func (s Settings) Names(section, name string) []string {
	var names []string
	for _, value := range s.Values(section, name) {
		if words, ok := Words(value, Literal); ok {
			names = append(names, words...)
		}
	}
	return names
}

// Dependencies returns the names of units in directives of [Unit], which an
// empty value does not reset.
func (s Settings) Dependencies(directives ...string) []string {
	var names []string
	for _, setting := range s {
		if setting.Section == "Unit" && slices.Contains(directives, setting.Name) {
			names = append(names, NamesIn(setting.Value)...)
		}
	}
	return names
}

// IsTrue reports whether systemd reads the value as true.
func IsTrue(value string) bool {
	return slices.Contains([]string{"1", "yes", "y", "true", "t", "on"}, strings.ToLower(value))
}
