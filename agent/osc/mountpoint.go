package osc

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/osc/directive"
	"github.com/loam-os/loam/agent/unitfile"
)

// links are the directories that are links in the image, or made by its
// tmpfiles.d, with what they lead to. systemd mounts nothing through a link.
var links = []struct{ link, target string }{
	{"/bin", "/usr/bin"},
	{"/home", "/var/home"},
	{"/lib", "/usr/lib"},
	{"/lib32", "/usr/lib32"},
	{"/lib64", "/usr/lib64"},
	{"/libx32", "/usr/libx32"},
	{"/opt", "/var/opt"},
	{"/root", "/var/roothome"},
	{"/sbin", "/usr/sbin"},
	{"/srv", "/var/srv"},
	{"/usr/libexec/kubernetes", "/var/usrlibexec/kubernetes"},
	{"/usr/local", "/var/usrlocal"},
	{"/var/lock", "/run/lock"},
	{"/var/run", "/run"},
}

// resolve returns the path that file is after the image's links.
func resolve(file string) string {
	for _, one := range links {
		if rest, ok := strings.CutPrefix(file+"/", one.link+"/"); ok {
			return strings.TrimSuffix(one.target+"/"+rest, "/")
		}
	}
	return file
}

// ofSystemd are the file systems in them that systemd refuses units for.
var ofSystemd = []string{
	"/proc", "/sys", "/dev", "/dev/shm", "/dev/pts", "/run", "/sys/fs/cgroup", "/sys/fs/pstore",
	"/sys/fs/bpf", "/sys/firmware/efi/efivars", "/sys/kernel/security", "/sys/fs/smackfs",
}

// vital are the directories that the node does not do without: a mount there, or
// above, hides them.
var vital = []string{
	"/etc/systemd/system", "/run/systemd", "/run/loam", "/usr/bin", "/usr/sbin", "/usr/lib/systemd",
	"/usr/lib/modules", "/var/lib/loam",
}

// escapePath returns the name of a unit for a path, without its type
// (systemd.unit(5), "String Escaping for Inclusion in Unit Names").
func escapePath(file string) string {
	file = strings.Trim(path.Clean("/"+file), "/")
	if file == "" {
		return "-"
	}

	var name strings.Builder
	for i := range len(file) {
		c := file[i]
		switch {
		case c == '/':
			name.WriteByte('-')
		case c == '.' && i == 0, c == '-', c != ':' && c != '_' && c != '.' && !isAlphanumeric(c):
			fmt.Fprintf(&name, `\x%02x`, c)
		default:
			name.WriteByte(c)
		}
	}
	return name.String()
}

func isAlphanumeric(c byte) bool {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
}

// unescapePath returns the path of a name without its type, "" if the name has
// none.
func unescapePath(name string) string {
	if name == "-" {
		return "/"
	}

	var file strings.Builder
	file.WriteByte('/')
	for i := 0; i < len(name); i++ {
		switch {
		case name[i] == '-':
			file.WriteByte('/')
		case name[i] == '\\':
			var c byte
			if _, err := fmt.Sscanf(name[i:min(i+4, len(name))], `\x%02x`, &c); err != nil {
				return ""
			}
			file.WriteByte(c)
			i += 3
		default:
			file.WriteByte(name[i])
		}
	}

	if path.Clean(file.String()) != file.String() {
		return ""
	}
	return file.String()
}

// mountPoint returns where a mount or automount unit mounts, "" if that is known
// on the node only.
func (s settings) mountPoint(name string) string {
	stem, suffix := cutSuffix(name)
	section := strings.ToUpper(suffix[:1]) + suffix[1:]
	where := s.last(section + ".Where")
	switch {
	case directive.HasSpecifier(where) || strings.Contains(stem, "@"):
		return ""
	case where == "":
		return unescapePath(stem)
	}
	return path.Clean(where)
}

func (s settings) mountFault(name string) (problem, hint string) {
	where := s.mountPoint(name)
	switch {
	case !s.has("Mount", "What"):
		return "it has no What=", "write What= in [Mount]"
	case slices.Contains(ofSystemd, where):
		return where + " is a file system of the kernel", "leave the unit out"
	case where == "/":
		return "it would be mounted over the whole system", "choose another directory"
	case strings.HasPrefix(s.last("Mount.What"), "/") && hasPart(s.last("Mount.What"), ".."):
		return "What=" + s.last("Mount.What") + " has .. in it", "write the path without it"
	}
	if problem, hint := nameFault(name, where, "Where"); problem != "" {
		return problem, hint
	}
	return s.execFault("Mount")
}

func (s settings) automountFault(name string) (problem, hint string) {
	where := s.mountPoint(name)
	switch {
	case where == "/":
		return "it would be mounted over the whole system", "choose another directory"
	case slices.Contains(ofSystemd, where):
		return where + " is a file system of the kernel", "leave the unit out"
	}
	return nameFault(name, where, "Where")
}

// deviceTags are what systemd finds devices by (fstab(5)).
var deviceTags = []string{"UUID", "LABEL", "PARTUUID", "PARTLABEL"}

func (s settings) swapFault(name string) (problem, hint string) {
	what := s.last("Swap.What")
	stem, _ := cutSuffix(name)
	if what == "" && !strings.Contains(stem, "@") {
		what = unescapePath(stem)
	}
	if by, value, ok := strings.Cut(what, "="); ok && slices.Contains(deviceTags, by) {
		what = "/dev/disk/by-" + strings.ToLower(by) + "/" + value
	}
	if directive.HasSpecifier(what) {
		return "", ""
	}
	if what != "" && !strings.HasPrefix(what, "/") {
		return "What=" + what + " is not absolute", "write a path, such as /dev/sda2, or UUID="
	}
	if problem, hint := nameFault(name, what, "What"); problem != "" {
		return problem, hint
	}
	return s.execFault("Swap")
}

// nameFault compares the name of a unit with its path, the value of key.
func nameFault(name, file, key string) (problem, hint string) {
	stem, suffix := cutSuffix(name)
	want := escapePath(file) + "." + suffix
	switch {
	case file == "" && !strings.Contains(stem, "@"):
		return "its name is not that of a path", "write " + key + "=, and name the unit like it"
	case file == "" || name == want:
		return "", ""
	}
	return fmt.Sprintf("its name is not that of %s=%s", key, file), "name the unit " + want
}

func (s settings) sliceFault(name string) (problem, hint string) {
	stem, _ := cutSuffix(name)
	if (stem != "-" && (strings.HasPrefix(stem, "-") || strings.HasSuffix(stem, "-") ||
		strings.Contains(stem, "--"))) || strings.Contains(stem, "@") {
		return "its name is not that of a slice", "write the names of its parents with one dash between"
	}

	if s.has("Slice", "Slice") {
		return "its parent follows from its name", "leave out Slice="
	}
	return "", ""
}

// checkMountPoint reports a mount that systemd would refuse when it starts, as
// its path leads through a link, and one that would hide what the node needs.
func checkMountPoint(report *document.Report, at, name string, s settings) {
	_, suffix := cutSuffix(name)
	if suffix != "mount" && suffix != "automount" {
		return
	}

	where := s.mountPoint(name)
	if where == "" {
		return
	}
	target := resolve(where)
	hides := func(dir string) bool { return isBelow(dir, target) }
	switch {
	case target != where:
		report.Warn(at, document.Quote(where)+" leads through a link of the image, and systemd "+
			"mounts nothing through links",
			fmt.Sprintf("write Where=%s, and name the unit %s.%s", target, escapePath(target), suffix))
	case slices.ContainsFunc(vital, hides) || isBelow(target, "/var/lib/loam"):
		report.Add(at, "a mount on "+document.Quote(where)+" would hide what the node runs from",
			"choose another directory")
	}
}

// checkMountName reports a mount or automount unit without content whose path
// leads through a link.
func checkMountName(report *document.Report, at, name string) {
	stem, suffix := cutSuffix(name)
	if suffix != "mount" && suffix != "automount" {
		return
	}
	where := unescapePath(stem)
	if target := resolve(where); target != where {
		report.Warn(at, document.Quote(name)+" leads through a link of the image, and systemd "+
			"mounts nothing through links", "name the unit "+escapePath(target)+"."+suffix)
	}
}

// isBelow reports whether file is dir, or below it.
func isBelow(file, dir string) bool {
	return strings.HasPrefix(file+"/", strings.TrimSuffix(dir, "/")+"/")
}

// dependencies are the directives that list units, and those that list paths
// whose mounts a unit needs.
var (
	dependencies = []string{
		"Requires", "Requisite", "Wants", "BindsTo", "Upholds", "Conflicts", "Before", "After",
		"OnSuccess", "OnFailure", "PropagatesReloadTo", "ReloadPropagatedFrom", "PropagatesStopTo",
		"StopPropagatedFrom", "PartOf", "JoinsNamespaceOf", "WantedBy", "RequiredBy", "UpheldBy",
		"Also", "Alias",
	}
	mountsFor = []string{"RequiresMountsFor", "WantsMountsFor"}
)

// checkLinks reports dependencies on mounts that cannot be, as their paths lead
// through links of the image.
func checkLinks(report *document.Report, at string, line unitfile.Line) {
	name, value, _ := line.Assignment()
	if line.Section != "Unit" && line.Section != "Install" {
		return
	}

	listsPaths := slices.Contains(mountsFor, name)
	if !listsPaths && !slices.Contains(dependencies, name) {
		return
	}

	for _, word := range unitfile.NamesIn(value) {
		stem, suffix := cutSuffix(word)
		file := word
		if !strings.HasPrefix(word, "/") {
			if listsPaths || (suffix != "mount" && suffix != "automount") {
				continue
			}
			file = unescapePath(stem)
		} else if line.Section == "Install" {
			continue // It takes no paths.
		}

		file = path.Clean(cmp.Or(file, "/"))
		target := resolve(file)
		if target == file {
			continue
		}

		instead := target
		if !strings.HasPrefix(word, "/") {
			instead = escapePath(target) + "." + suffix
		}
		report.WarnLine(at, line.Number, fmt.Sprintf("%s=%s leads through a link of the image, and "+
			"no mount does", name, word), "write "+instead)
	}
}
