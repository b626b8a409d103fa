package osc

import (
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/unitfile"
)

// fileless are the types of units that have no unit files: systemd makes the
// units, and a configuration can neither enable nor start one.
var fileless = []string{"scope", "device"}

// checkUnitName reports the problems of name, the value at path at: see
// "description" in systemd.unit(5).
func checkUnitName(report *document.Report, at, name string) {
	stem, suffix := cutSuffix(name)
	add := func(problem, hint string) {
		report.Add(at, document.Quote(name)+" "+problem, hint)
	}

	switch {
	case name == "":
		report.Add(at, "empty", "name the unit, with its type: example.service")
	case len(name) > maxName:
		add("is longer than 255 bytes", "")
	case !slices.Contains(unitfile.Types, suffix):
		hint := "end it with .service or another type of unit"
		if near := document.Nearest(suffix, unitfile.Types); near != "" {
			hint = "did you mean ." + near + "?"
		}
		add("does not end with a type of unit", hint)
	case name == "init.scope":
		add("is refused: it changes PID 1, the next boot included", "write drop-ins for units")
	case slices.Contains(fileless, suffix):
		add("is made by systemd itself", "write a drop-in for a service, a slice or a mount")
	case stem == "" || strings.HasPrefix(stem, "@"):
		add("has nothing before its type", "write a name before it")
	case strings.ContainsFunc(stem, func(r rune) bool { return !unitfile.InNames(r) }):
		add("holds a character that no unit name has",
			`use letters, digits and :-_.\@ (systemd-escape(1) converts a path)`)
	case unitfile.IsReserved(name):
		add("is refused: it belongs to Loam", "choose another name")
	}
}

func checkDropInName(report *document.Report, at, name string) {
	add := func(problem, hint string) {
		report.Add(at, document.Quote(name)+" "+problem, hint)
	}

	warn := func(problem, hint string) {
		report.Warn(at, document.Quote(name)+" "+problem, hint)
	}

	switch {
	case name == "":
		report.Add(at, "empty", "name the drop-in, such as 10-example.conf")
	case strings.Contains(name, "/") || strings.ContainsFunc(name, isControl):
		add("is not a file name", "leave out slashes and control characters")
	case len(name) > maxName:
		add("is longer than 255 bytes", "")
	case ownFile.MatchString(name):
		add("is refused: it would take the place of the image's drop-in of that name",
			"choose another name")
	case !strings.HasSuffix(name, ".conf"):
		warn("does not end with .conf, so systemd would ignore it", "write "+name+".conf")
	case strings.HasPrefix(name, "."):
		warn("begins with a dot, so systemd would ignore it", "begin it with a digit or a letter")
	}
}

// cutSuffix splits "a.b.service" into "a.b" and "service".
func cutSuffix(name string) (stem, suffix string) {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return name, ""
	}
	return name[:dot], name[dot+1:]
}
