package osc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
)

// byName returns the units of each name, which together are one unit.
func byName(units []located[Unit]) map[string][]located[Unit] {
	all := map[string][]located[Unit]{}
	for _, unit := range units {
		all[unit.value.Name] = append(all[unit.value.Name], unit)
	}
	return all
}

// checkService reports a service that systemd refuses to load (service_verify in
// its src/core/service.c). A unit without content is the image's, with drop-ins.
func checkService(report *document.Report, name string, units []located[Unit]) {
	at := ""
	var text string
	var dropIns []DropIn
	for _, unit := range units {
		dropIns = append(dropIns, unit.value.DropIns...)
		if content := unit.value.Content; content != nil {
			at = unit.at + ".content"
			text = *content
		}
	}
	if text == "" || !strings.HasSuffix(name, ".service") {
		return
	}

	s := service{exec: map[string][]string{}, settings: map[string]string{}}
	s.read(text)
	slices.SortStableFunc(dropIns, func(a, b DropIn) int { return cmp.Compare(a.Name, b.Name) })
	for _, dropIn := range dropIns {
		s.read(dropIn.Content)
	}

	if problem, hint := s.fault(); problem != "" {
		report.Warn(at, "systemd refuses the service: "+problem, hint)
	}
}

// service is what decides whether systemd loads a service.
type service struct {
	exec     map[string][]string
	settings map[string]string
}

// read adds the settings of a unit file or drop-in.
func (s service) read(text string) {
	for line := range unitLines(text) {
		name, value, ok := line.assignment()
		switch {
		case !ok || line.section != "Service" && line.section != "Unit":
		case strings.HasPrefix(name, "Exec") && value == "":
			s.exec[name] = nil // An empty value resets the list.
		case strings.HasPrefix(name, "Exec"):
			s.exec[name] = append(s.exec[name], value)
		default:
			s.settings[name] = value
		}
	}
}

// fault returns why systemd refuses the service, "" if it does not.
func (s service) fault() (problem, hint string) {
	starts := len(s.exec["ExecStart"])
	oneshot := s.settings["Type"] == "oneshot"
	success := s.settings["SuccessAction"]
	none := starts == 0 && (success == "" || success == "none")
	restart := s.settings["Restart"]

	switch {
	case none && len(s.exec["ExecStop"]) == 0:
		return "it has no ExecStart=", "write ExecStart= in [Service]"
	case none && !oneshot:
		return "it has no ExecStart=, and is not of Type=oneshot", "write ExecStart= in [Service]"
	case none && !isTrue(s.settings["RemainAfterExit"]):
		return "it has no ExecStart=, and no RemainAfterExit=yes",
			"write ExecStart= or RemainAfterExit=yes in [Service]"
	case starts > 1 && !oneshot:
		return fmt.Sprintf("it has %d lines of ExecStart=, and is not of Type=oneshot", starts),
			"keep one of them, write Type=oneshot, or empty the list first with ExecStart="
	case oneshot && (restart == "always" || restart == "on-success"):
		return "it has Type=oneshot and Restart=" + restart,
			"write Restart=on-failure, or no Restart="
	case s.settings["Type"] == "dbus" && s.settings["BusName"] == "":
		return "it has Type=dbus and no BusName=", "write BusName= in [Service]"
	}
	return "", ""
}

// isTrue reports whether systemd reads the value as true (systemd.syntax(7)).
func isTrue(value string) bool {
	return slices.Contains([]string{"1", "yes", "y", "true", "t", "on"}, strings.ToLower(value))
}
