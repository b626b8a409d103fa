package osc

import (
	"iter"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/osc/directive"
)

// sections are the sections of unit files (systemd.unit(5) and the pages of the
// types). systemd ignores all others, except those beginning with X-.
var sections = []string{
	"Unit", "Install", "Service", "Socket", "Mount", "Automount", "Swap", "Timer", "Path",
	"Slice", "Scope",
}

// sectionsOf returns the sections of a unit of the type suffix, all of them for
// an unknown type.
func sectionsOf(suffix string) []string {
	if !slices.Contains(suffixes, suffix) {
		return sections
	}

	own := func(section string) bool { return strings.ToLower(section) == suffix }
	if i := slices.IndexFunc(sections, own); i >= 0 {
		return []string{"Unit", "Install", sections[i]}
	}
	return []string{"Unit", "Install"}
}

// unitLine is a line of a unit file with something on it, together with the
// lines in which its value goes on.
type unitLine struct {
	// number is that of its first line.
	number int
	text   string
	// section is the section that the line begins or is in, "" before the first.
	section string
}

// assignment returns the name and the value of an assignment.
func (l unitLine) assignment() (name, value string, ok bool) {
	name, value, ok = strings.Cut(l.text, "=")
	return strings.TrimSpace(name), strings.TrimSpace(value), ok
}

func (l unitLine) isSection() bool { return strings.HasPrefix(l.text, "[") }

// lineEnds makes the ends of lines those of Linux. systemd takes either.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// unitLines returns the lines of a unit file (systemd.syntax(7)). A byte order
// mark at its beginning has no meaning.
func unitLines(text string) iter.Seq[unitLine] {
	return func(yield func(unitLine) bool) {
		section := ""
		held := ""
		first := 0
		number := 0
		emit := func(text string) bool {
			line := unitLine{number: first, text: strings.TrimSpace(text), section: section}
			if line.text == "" {
				return true
			}
			if line.isSection() {
				section = strings.TrimSuffix(line.text[1:], "]")
				line.section = section
			}
			return yield(line)
		}

		for raw := range strings.SplitSeq(lineEnds.Replace(strings.TrimPrefix(text, "\ufeff")), "\n") {
			number++
			trimmed := strings.TrimSpace(raw)
			if strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, ";") {
				continue // Also between the lines of one value.
			}

			if held == "" {
				first = number
			}
			joined := held + raw
			if goesOn(joined) {
				held = joined[:len(joined)-1] + " "
				continue
			}
			held = ""
			if !emit(joined) {
				return
			}
		}
		emit(held)
	}
}

// goesOn reports whether a line ends with a backslash that is not escaped.
func goesOn(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// checkUnitFile reports the lines of text that systemd would skip with only a
// warning, and what it would do to Loam's units. names are the units that read
// the text, all of one type.
func checkUnitFile(report *document.Report, at, text string, names []string) {
	line := 0
	for raw := range strings.SplitSeq(text, "\n") {
		line++
		if strings.ContainsRune(raw, 0) {
			report.WarnLine(at, line, "holds a NUL character", "remove it")
		}
	}

	_, suffix := cutSuffix(names[0])
	known := sectionsOf(suffix)
	for line := range unitLines(text) {
		if line.isSection() {
			checkSection(report, at, line, known)
		} else {
			checkAssignment(report, at, line, known)
		}
	}

	checkOwnUnits(report, at, text, names)
}

// checkSection reports a section that systemd ignores; known are the sections of
// a unit of this type.
func checkSection(report *document.Report, at string, line unitLine, known []string) {
	name, closed := strings.CutSuffix(line.text[1:], "]")
	if !closed {
		report.WarnLine(at, line.number, document.Quote(line.text)+" has no closing bracket",
			"write it as [Service]")
		return
	}

	if strings.HasPrefix(name, "X-") || slices.Contains(known, name) {
		return
	}

	if slices.Contains(sections, name) {
		report.WarnLine(at, line.number, "units of this type have no section "+document.Quote(name),
			"leave it out, or write it in a ."+strings.ToLower(name)+" unit")
		return
	}

	hint := "known sections are " + strings.Join(sections, ", ") + "; your own must begin with X-"
	if near := document.Nearest(name, sections); near != "" {
		hint = "did you mean [" + near + "]?"
	}

	report.WarnLine(at, line.number,
		"the section "+document.Quote(name)+" is unknown to systemd", hint)
}

func checkAssignment(report *document.Report, at string, line unitLine, known []string) {
	name, _, assigned := line.assignment()
	switch {
	case !assigned:
		report.WarnLine(at, line.number, document.Quote(line.text)+" is not an assignment",
			"write Name=value, or begin a comment with #")
	case name == "":
		report.WarnLine(at, line.number, "an assignment has no name", "write Name=value")
	case line.section == "":
		report.WarnLine(at, line.number, document.Quote(line.text)+" comes before any section",
			"begin with a section, such as [Service]")
	case slices.Contains(known, line.section) && !directive.Known(line.section, name):
		checkDirective(report, at, line, known)
	case slices.Contains(known, line.section):
		checkValue(report, at, line)
	}
}

// checkValue reports a value that systemd ignores, or for which it refuses the
// unit.
func checkValue(report *document.Report, at string, line unitLine) {
	name, value, _ := line.assignment()
	if problem, hint := directive.Fault(line.section, name, value); problem != "" {
		report.WarnLine(at, line.number, name+"="+document.Quote(value)+" "+problem, hint)
		return
	}
	checkLinks(report, at, line)
}

// checkDirective reports a directive that systemd does not know in its section.
func checkDirective(report *document.Report, at string, line unitLine, known []string) {
	name, _, _ := line.assignment()
	hint := "see systemd." + strings.ToLower(line.section) + "(5); your own must begin with X-"
	if other := directive.Elsewhere(name, known); other != "" {
		hint = "move it to [" + other + "]"
	} else if near := directive.Nearest(line.section, name); near != "" {
		hint = "did you mean " + near + "?"
	}

	report.WarnLine(at, line.number, "systemd has no directive "+document.Quote(name)+" in ["+
		line.section+"]", hint)
}
