package osc

import (
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/osc/directive"
	"github.com/loam-os/loam/agent/unitfile"
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
	if !slices.Contains(unitfile.Types, suffix) {
		return sections
	}

	own := func(section string) bool { return strings.ToLower(section) == suffix }
	if i := slices.IndexFunc(sections, own); i >= 0 {
		return []string{"Unit", "Install", sections[i]}
	}
	return []string{"Unit", "Install"}
}

// checkUnitFile reports the lines of text that systemd would skip with only a
// warning, and what it would do to Loam's units.
func checkUnitFile(report *document.Report, at, text string, of readers) {
	line := 0
	for raw := range strings.SplitSeq(text, "\n") {
		line++
		if strings.ContainsRune(raw, 0) {
			report.WarnLine(at, line, "holds a NUL character", "remove it")
		}
	}

	_, suffix := cutSuffix(of.names[0])
	known := sectionsOf(suffix)
	for line := range unitfile.Lines(text) {
		if line.IsSection() {
			checkSection(report, at, line, known)
		} else {
			checkAssignment(report, at, line, known)
		}
	}

	checkInstall(report, at, text, of)
	checkOwnUnits(report, at, text, of.names)
}

// checkInstall reports the words of [Install] that make no link when the unit is
// enabled. A node refuses the unit because of some, and overlooks the others.
func checkInstall(report *document.Report, at, text string, of readers) {
	unit := of.names[0]
	stem, _ := cutSuffix(unit)
	if !unitfile.IsName(unit) || strings.HasSuffix(stem, "-") {
		return // It was reported, or stands for units of which it is a prefix.
	}

	instance := unitfile.Parse(text).Last("Install", "DefaultInstance")
	for line := range unitfile.Lines(text) {
		name, value, _ := line.Assignment()
		if line.Section != "Install" || value == "" {
			continue
		}

		if _, ok := unitfile.Words(value, unitfile.Literal); !ok {
			report.WarnLine(at, line.Number, name+"="+document.Quote(value)+
				" has a quote that is not closed", "close it")
		}

		in := unitfile.Settings{
			{Section: "Install", Name: "DefaultInstance", Value: instance},
			{Section: "Install", Name: name, Value: value},
		}
		_, faults := in.Install().Links(unit, "")
		for _, fault := range faults {
			switch {
			case fault.Directive != name:
			case slices.Contains(of.refused, fault):
				report.AddLine(at, line.Number, fault.String(), fault.Hint)
			default:
				report.WarnLine(at, line.Number, fault.String(), fault.Hint)
			}
		}
	}
}

// checkSection reports a section that systemd ignores; known are the sections of
// a unit of this type.
func checkSection(report *document.Report, at string, line unitfile.Line, known []string) {
	name, closed := strings.CutSuffix(line.Text[1:], "]")
	if !closed {
		report.WarnLine(at, line.Number, document.Quote(line.Text)+" has no closing bracket",
			"write it as [Service]")
		return
	}

	if strings.HasPrefix(name, "X-") || slices.Contains(known, name) {
		return
	}

	if slices.Contains(sections, name) {
		report.WarnLine(at, line.Number, "units of this type have no section "+document.Quote(name),
			"leave it out, or write it in a ."+strings.ToLower(name)+" unit")
		return
	}

	hint := "known sections are " + strings.Join(sections, ", ") + "; your own must begin with X-"
	if near := document.Nearest(name, sections); near != "" {
		hint = "did you mean [" + near + "]?"
	}

	report.WarnLine(at, line.Number,
		"the section "+document.Quote(name)+" is unknown to systemd", hint)
}

func checkAssignment(report *document.Report, at string, line unitfile.Line, known []string) {
	name, _, assigned := line.Assignment()
	switch {
	case !assigned:
		report.WarnLine(at, line.Number, document.Quote(line.Text)+" is not an assignment",
			"write Name=value, or begin a comment with #")
	case name == "":
		report.WarnLine(at, line.Number, "an assignment has no name", "write Name=value")
	case line.Section == "":
		report.WarnLine(at, line.Number, document.Quote(line.Text)+" comes before any section",
			"begin with a section, such as [Service]")
	case slices.Contains(known, line.Section) && !directive.Known(line.Section, name):
		checkDirective(report, at, line, known)
	case slices.Contains(known, line.Section):
		checkValue(report, at, line)
	}
}

// checkValue reports a value that systemd ignores, or for which it refuses the
// unit.
func checkValue(report *document.Report, at string, line unitfile.Line) {
	name, value, _ := line.Assignment()
	if problem, hint := directive.Fault(line.Section, name, value); problem != "" {
		report.WarnLine(at, line.Number, name+"="+document.Quote(value)+" "+problem, hint)
		return
	}
	checkLinks(report, at, line)
}

// checkDirective reports a directive that systemd does not know in its section.
func checkDirective(report *document.Report, at string, line unitfile.Line, known []string) {
	name, _, _ := line.Assignment()
	hint := "see systemd." + strings.ToLower(line.Section) + "(5); your own must begin with X-"
	if other := directive.Elsewhere(name, known); other != "" {
		hint = "move it to [" + other + "]"
	} else if near := directive.Nearest(line.Section, name); near != "" {
		hint = "did you mean " + near + "?"
	}

	report.WarnLine(at, line.Number, "systemd has no directive "+document.Quote(name)+" in ["+
		line.Section+"]", hint)
}
