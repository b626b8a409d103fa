package osc

import (
	"slices"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/unitfile"
)

// commands are the values of Unit.Command.
var commands = []string{
	string(config.CommandStart), string(config.CommandRestart), string(config.CommandStop),
}

// checkUnit reports the problems of a unit; files has the path of each file.
func checkUnit(
	report *document.Report, unit located[Unit], files map[string]bool, all documentUnits,
) {
	at := unit.at
	value := unit.value
	checkUnitName(report, at+".name", value.Name)
	if value.Command != nil {
		checkCommand(report, at+".command", value)
	}

	if value.Content != nil {
		checkUnitContent(report, at+".content", value, all)
	} else {
		checkMountName(report, at+".name", value.Name)
	}

	of := all.readers(value.Name)
	for i, dropIn := range value.DropIns {
		checkDropInName(report, item(at+".dropIns", i)+".name", dropIn.Name)
		checkUnitFile(report, item(at+".dropIns", i)+".content", dropIn.Content, of)
	}

	for i, path := range value.FilePaths {
		if !files[path] {
			report.Warn(item(at+".filePaths", i), document.Quote(path)+" is not among the files",
				"add the file, or remove it here")
		}
	}
}

func checkCommand(report *document.Report, at string, unit Unit) {
	command := *unit.Command
	starts := command == string(config.CommandStart) || command == string(config.CommandRestart)
	switch {
	case !slices.Contains(commands, command):
		hint := "write start, restart or stop"
		if near := document.Nearest(command, commands); near != "" {
			hint = "did you mean " + near + "?"
		}
		report.Warn(at, document.Quote(command)+" is unknown", hint)
	case starts && unitfile.IsTemplate(unit.Name):
		report.Warn(at, "a template cannot be started",
			"start an instance of it: example@instance.service")
	}
}

func checkUnitContent(report *document.Report, at string, unit Unit, all documentUnits) {
	_, suffix := cutSuffix(unit.Name)
	switch {
	case *unit.Content == "":
		report.Warn(at, "empty, which would mask the unit",
			"leave content out to keep the image's unit, or use enable: false")
	case slices.Contains(fileless, suffix): // Reported with the name.
	default:
		checkUnitFile(report, at, *unit.Content, all.readers(unit.Name))
	}
}
