package osc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/unitfile"
)

// byName returns the units of each name, which together are one unit.
func byName(units []located[Unit]) map[string][]located[Unit] {
	all := map[string][]located[Unit]{}
	for _, unit := range units {
		all[unit.value.Name] = append(all[unit.value.Name], unit)
	}
	return all
}

// checkLoads reports a unit that systemd refuses to load (the functions
// UNIT_verify in its src/core). A unit without content is the image's, with
// drop-ins.
func checkLoads(report *document.Report, name string, units []located[Unit]) {
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
	if text == "" {
		return
	}

	s := settings{}
	s.read(text)
	slices.SortStableFunc(dropIns, func(a, b DropIn) int { return cmp.Compare(a.Name, b.Name) })
	for _, dropIn := range dropIns {
		s.read(dropIn.Content)
	}

	_, suffix := cutSuffix(name)
	if problem, hint := s.fault(name, suffix); problem != "" {
		report.Warn(at, "systemd refuses the "+suffix+": "+problem, hint)
	} else if problem, hint := s.noEffect(); problem != "" {
		report.Warn(at, problem, hint)
	}
	checkMountPoint(report, at, name, s)
}

// settings are the values of a unit's directives, by SECTION.NAME.
type settings map[string][]string

// read adds the settings of a unit file or drop-in. An empty value resets a
// list.
func (s settings) read(text string) {
	for _, setting := range unitfile.Parse(text) {
		key := setting.Section + "." + setting.Name
		if setting.Value != "" {
			s[key] = append(s[key], setting.Value)
			continue
		}
		delete(s, key)
		for _, other := range sharedLists[setting.Section] {
			if slices.Contains(sharedLists[setting.Section], setting.Name) {
				delete(s, setting.Section+"."+other)
			}
		}
	}
}

// sharedLists are the directives of a section that add to one list, which an
// empty value of any of them resets.
var sharedLists = map[string][]string{
	"Path": {"PathExists", "PathExistsGlob", "PathChanged", "PathModified", "DirectoryNotEmpty"},
	"Socket": {
		"ListenStream", "ListenSequentialPacket", "ListenDatagram", "ListenFIFO", "ListenSpecial",
		"ListenNetlink", "ListenMessageQueue", "ListenUSBFunction",
	},
	"Timer": {
		"OnCalendar", "OnActiveSec", "OnBootSec", "OnStartupSec", "OnUnitActiveSec",
		"OnUnitInactiveSec",
	},
}

// last returns the value that counts of a directive that takes one.
func (s settings) last(key string) string {
	if values := s[key]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// has reports whether one of the directives has a value.
func (s settings) has(section string, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return len(s[section+"."+name]) > 0
	})
}

// fault returns why systemd refuses the unit, "" if it does not.
func (s settings) fault(name, suffix string) (problem, hint string) {
	switch suffix {
	case "service":
		return s.serviceFault()
	case "socket":
		return s.socketFault()
	case "timer":
		return s.timerFault()
	case "path":
		if !s.has("Path", sharedLists["Path"]...) {
			return "it has no path", "write PathExists=, PathChanged= or another path in [Path]"
		}
	case "mount":
		return s.mountFault(name)
	case "automount":
		return s.automountFault(name)
	case "swap":
		return s.swapFault(name)
	case "slice":
		return s.sliceFault(name)
	}
	return "", ""
}

func (s settings) serviceFault() (problem, hint string) {
	starts := len(s["Service.ExecStart"])
	oneshot := s.isOneshot()
	success := s.last("Unit.SuccessAction")
	none := starts == 0 && (success == "" || success == "none")
	restart := s.last("Service.Restart")

	switch {
	case none && len(s["Service.ExecStop"]) == 0:
		return "it has no ExecStart=", "write ExecStart= in [Service]"
	case starts == 0 && !oneshot:
		return "it has no ExecStart=, and is not of Type=oneshot", "write ExecStart= in [Service]"
	case none && !unitfile.IsTrue(s.last("Service.RemainAfterExit")):
		return "it has no ExecStart=, and no RemainAfterExit=yes",
			"write ExecStart= or RemainAfterExit=yes in [Service]"
	case starts > 1 && !oneshot:
		return fmt.Sprintf("it has %d lines of ExecStart=, and is not of Type=oneshot", starts),
			"keep one of them, write Type=oneshot, or empty the list first with ExecStart="
	case oneshot && (restart == "always" || restart == "on-success"):
		return "it has Type=oneshot and Restart=" + restart,
			"write Restart=on-failure, or no Restart="
	case oneshot && s.last("Service.ExitType") == "cgroup":
		return "it has Type=oneshot and ExitType=cgroup", "leave out ExitType="
	case s.last("Service.Type") == "dbus" && s.last("Service.BusName") == "":
		return "it has Type=dbus and no BusName=", "write BusName= in [Service]"
	case s.has("Service", "USBFunctionDescriptors") != s.has("Service", "USBFunctionStrings"):
		return "it has one of USBFunctionDescriptors= and USBFunctionStrings= only", "write both"
	}
	return s.execFault("Service")
}

// isOneshot reports whether the service is of Type=oneshot, which systemd chooses
// for one that has neither a type nor ExecStart= nor BusName=.
func (s settings) isOneshot() bool {
	of := s.last("Service.Type")
	return of == "oneshot" || (of == "" && !s.has("Service", "ExecStart", "BusName"))
}

// execFault returns why systemd refuses what runs programs.
func (s settings) execFault(section string) (problem, hint string) {
	kill := s.last(section + ".KillMode")
	if s.has(section, "PAMName") && kill != "" && kill != "control-group" && kill != "mixed" {
		return "it has PAMName= and KillMode=" + kill, "write KillMode=control-group or mixed"
	}
	if unitfile.IsTrue(s.last(section+".DynamicUser")) &&
		strings.TrimPrefix(s.last(section+".WorkingDirectory"), "-") == "~" {
		return "it has DynamicUser=yes and WorkingDirectory=~, and such a user has no home",
			"write StateDirectory=NAME and WorkingDirectory=/var/lib/NAME"
	}
	return "", ""
}

// noEffect returns which setting of a service systemd ignores beside the others.
func (s settings) noEffect() (problem, hint string) {
	steps := s.last("Service.RestartSteps")
	hasSteps := steps != "" && steps != "0"
	delay := s.last("Service.RestartMaxDelaySec")
	hasDelay := delay != "" && delay != "infinity"
	limit := s.last("Service.RuntimeMaxSec")
	switch {
	case hasSteps && !hasDelay:
		return "RestartSteps= has no effect without RestartMaxDelaySec=", "write both in [Service]"
	case hasDelay && !hasSteps:
		return "RestartMaxDelaySec= has no effect without RestartSteps=", "write both in [Service]"
	case limit != "" && limit != "infinity" && s.isOneshot():
		return "RuntimeMaxSec= has no effect with Type=oneshot", "write TimeoutStartSec= instead"
	}
	return "", ""
}

// socketFault relies on the order of the list: the first two have connections.
func (s settings) socketFault() (problem, hint string) {
	accepts := unitfile.IsTrue(s.last("Socket.Accept"))
	nodes := 0
	for _, name := range []string{"ListenStream", "ListenSequentialPacket", "ListenDatagram",
		"ListenFIFO"} {
		for _, value := range s["Socket."+name] {
			if strings.HasPrefix(value, "/") {
				nodes++
			}
		}
	}

	switch {
	case !s.has("Socket", sharedLists["Socket"]...):
		return "it listens nowhere", "write ListenStream= or another Listen directive in [Socket]"
	case accepts && s.has("Socket", sharedLists["Socket"][2:]...):
		return "it has Accept=yes, and listens for something that has no connections",
			"leave out Accept="
	case s.last("Socket.MaxConnections") == "0":
		return "it has MaxConnections=0", "write another MaxConnections="
	case accepts && s.has("Socket", "Service"):
		return "it has Accept=yes and Service=",
			"leave out Service=: each connection has an instance of the template of that name"
	case s.has("Socket", "Symlinks") && nodes != 1:
		return "it has Symlinks=, and not one path to link to", "listen at one path, or leave it out"
	}
	return s.execFault("Socket")
}

func (s settings) timerFault() (problem, hint string) {
	if s.has("Timer", sharedLists["Timer"]...) || unitfile.IsTrue(s.last("Timer.OnClockChange")) ||
		unitfile.IsTrue(s.last("Timer.OnTimezoneChange")) {
		return "", ""
	}
	return "it has no time", "write OnCalendar=, OnBootSec= or another time in [Timer]"
}
