// Package kernel opens to all processes what the image keeps closed to those
// without privileges: most holes of the kernel were in code that a pod reaches,
// and that no node uses.
//
//	Opening --Rules--> files of modprobe.d and sysctl.d, values of sysctl
//
// The image closes all of it, in usr/lib/modprobe.d/loam.conf and
// usr/lib/sysctl.d/50-loam.conf. The rules of machine.yaml are below /run, so that
// the next start of the machine begins with everything closed.
package kernel

import (
	"fmt"
	"slices"
	"strings"
)

// Files of the rules, relative to the root directory (modprobe.d(5),
// sysctl.d(5)). That of modprobe takes the place of the image's; that of sysctl
// comes after the image's and before those of a configuration.
const (
	ModulesFile  = "run/modprobe.d/loam.conf"
	SettingsFile = "run/sysctl.d/60-loam-machine.conf"
)

// ClosedFile is the image's file of modprobe, relative to the root directory.
const ClosedFile = "usr/lib/modprobe.d/loam.conf"

// Opening is what all processes may do.
type Opening struct {
	// Modules are modules of network protocols and file systems, such as sctp, can
	// or btrfs, that the kernel loads when a process asks for them.
	Modules []string `json:"modules"`
	// UserNamespaces lets a process without privileges make a user namespace, in
	// which it has them, as rootless builds and browsers do in a pod.
	UserNamespaces bool `json:"userNamespaces"`
	// IOUring lets processes use io_uring(7), as some databases do.
	IOUring bool `json:"ioUring"`
}

// IsZero reports whether nothing is opened.
func (o Opening) IsZero() bool {
	return len(o.Modules) == 0 && !o.UserNamespaces && !o.IOUring
}

// Setting is a parameter of the kernel (sysctl(8)), by its name with dots.
type Setting struct{ Name, Closed, Open string }

// Path is the file of the setting, relative to the root directory.
func (s Setting) Path() string { return "proc/sys/" + strings.ReplaceAll(s.Name, ".", "/") }

// UserNamespaces and IOUring are closed in the image
// (Documentation/admin-guide/sysctl/kernel.rst; the first is Debian's own).
var (
	UserNamespaces = Setting{"kernel.unprivileged_userns_clone", "0", "1"}
	IOUring        = Setting{"kernel.io_uring_disabled", "2", "0"}
)

// open returns the settings that are opened.
func (o Opening) open() []Setting {
	var open []Setting
	if o.UserNamespaces {
		open = append(open, UserNamespaces)
	}
	if o.IOUring {
		open = append(open, IOUring)
	}
	return open
}

// Rules are what is to be done.
type Rules struct {
	// Modules is the content of [ModulesFile], and Settings that of
	// [SettingsFile]; "" for no file.
	Modules, Settings string
	// Values are by the path of their file.
	Values map[string]string
	// Unknown are modules that the kernel has not, or loads for no process.
	Unknown []string
}

// Tables are what the rules depend on.
type Tables struct {
	// Aliases is the kernel's modules.alias (depmod(8)).
	Aliases []byte
	// Closed is the content of [ClosedFile].
	Closed []byte
	// Before is the content of [SettingsFile]: what it has opened is closed again.
	Before []byte
}

const header = "# From machine.yaml. The agent writes it.\n"

// Rules returns what opens o.
func (o Opening) Rules(t Tables) Rules {
	r := Rules{Values: map[string]string{}}
	r.Settings = o.settings(string(t.Before), r.Values)
	r.Modules, r.Unknown = o.modules(t.Aliases, string(t.Closed))
	return r
}

// settings returns the content of [SettingsFile], and adds to the values.
func (o Opening) settings(before string, values map[string]string) string {
	for _, s := range []Setting{UserNamespaces, IOUring} {
		if strings.Contains(before, s.Name+" ") {
			values[s.Path()] = s.Closed
		}
	}

	var text strings.Builder
	for _, s := range o.open() {
		values[s.Path()] = s.Open
		fmt.Fprintf(&text, "%s = %s\n", s.Name, s.Open)
	}
	if text.Len() == 0 {
		return ""
	}
	return header + text.String()
}

// modules returns the content of [ModulesFile]: what is closed but for the
// aliases of the modules. These come last, as the kernel is told what became of
// the last one.
func (o Opening) modules(aliases []byte, closed string) (text string, unknown []string) {
	if len(o.Modules) == 0 {
		return "", nil
	}

	of := requests(aliases)
	var open strings.Builder
	for _, name := range o.Modules {
		module := Module(name)
		if len(of[module]) == 0 {
			unknown = append(unknown, name)
		}
		for _, alias := range of[module] {
			closed = strings.ReplaceAll(closed, "alias "+alias+" off\n", "")
			fmt.Fprintf(&open, "alias %s %s\n", alias, module)
		}
	}

	return header + closed + open.String(), unknown
}

// Module returns the name of a module as the kernel has it: it takes a dash for
// an underscore.
func Module(name string) string { return strings.ReplaceAll(name, "-", "_") }

// requests returns the aliases by which the kernel asks for modules on behalf of
// any process, by module.
func requests(aliases []byte) map[string][]string {
	of := map[string][]string{}
	for line := range strings.Lines(string(aliases)) {
		words := strings.Fields(line)
		if len(words) != 3 || words[0] != "alias" || !isRequest(words[1]) {
			continue
		}
		module := Module(words[2])
		if !slices.Contains(of[module], words[1]) {
			of[module] = append(of[module], words[1])
		}
	}
	return of
}

func isRequest(alias string) bool {
	return strings.HasPrefix(alias, "net-pf-") || strings.HasPrefix(alias, "fs-")
}
