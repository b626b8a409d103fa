package osc

import (
	"strings"

	"github.com/loam-os/loam/agent/document"
)

// sections are the sections of unit files (systemd.unit(5) and the pages of the
// types). systemd ignores all others, except those beginning with X-.
var sections = []string{
	"Unit", "Install", "Service", "Socket", "Mount", "Automount", "Swap", "Timer", "Path",
	"Slice", "Scope",
}

// checkUnitFile reports the lines of text that systemd would skip with only a
// warning (systemd.syntax(7)). at is the path of text.
func checkUnitFile(report *document.Report, at, text string) {
	inSection := false
	continued := false
	line := 0
	for raw := range strings.SplitSeq(text, "\n") {
		line++
		trimmed := strings.TrimSpace(raw)
		comment := strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, ";")
		switch {
		case strings.ContainsRune(raw, 0):
			report.WarnLine(at, line, "holds a NUL character", "remove it")
		case comment: // Also between the lines of one value.
			continue
		case continued || trimmed == "":
		case strings.HasPrefix(trimmed, "["):
			inSection = true
			checkSection(report, at, line, trimmed)
		default:
			checkAssignment(report, at, line, trimmed, inSection)
		}

		continued = strings.HasSuffix(raw, `\`)
	}

	checkAliases(report, at, text)
}

// checkAliases refuses the names of Loam's own units: an alias is a link that
// systemd would follow instead of the image's unit.
func checkAliases(report *document.Report, at, text string) {
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		key, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(key) != "Alias" {
			continue
		}
		for _, name := range strings.Fields(value) {
			if ownUnit(name) {
				report.Add(at, "the alias "+document.Quote(name)+" is refused: it belongs to Loam",
					"choose another name")
			}
		}
	}
}

func checkSection(report *document.Report, at string, line int, text string) {
	name, closed := strings.CutSuffix(text[1:], "]")
	if !closed {
		report.WarnLine(at, line, document.Quote(text)+" has no closing bracket",
			"write it as [Service]")
		return
	}

	if strings.HasPrefix(name, "X-") {
		return
	}

	for _, known := range sections {
		if name == known {
			return
		}
	}

	hint := "known sections are " + strings.Join(sections, ", ") + "; your own must begin with X-"
	if near := document.Nearest(name, sections); near != "" {
		hint = "did you mean [" + near + "]?"
	}

	report.WarnLine(at, line, "the section "+document.Quote(name)+" is unknown to systemd", hint)
}

func checkAssignment(report *document.Report, at string, line int, text string, inSection bool) {
	key, _, assigned := strings.Cut(text, "=")
	switch {
	case !assigned:
		report.WarnLine(at, line, document.Quote(text)+" is not an assignment",
			"write Name=value, or begin a comment with #")
	case strings.TrimSpace(key) == "":
		report.WarnLine(at, line, "an assignment has no name", "write Name=value")
	case !inSection:
		report.WarnLine(at, line, document.Quote(text)+" comes before any section",
			"begin with a section, such as [Service]")
	}
}
