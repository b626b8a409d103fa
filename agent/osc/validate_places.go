package osc

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
)

// unitDir is where systemd looks for the administrator's units.
const unitDir = "/etc/systemd/system"

// places are the paths in use, by path and then by host; host "" means every
// host. The values are paths in the document.
type places map[string]map[string]string

// checkPlaces reports files that collide on some node. The same path twice is a
// warning, as [Merge] defines which one counts; a path below another file is an
// error. Unit files and the files of criConfig count too.
func checkPlaces(
	report *document.Report,
	files []located[File],
	units []located[Unit],
	written map[string]string,
) {
	taken := places{}
	for file, at := range written {
		taken.add(file, "", at)
	}

	for _, unit := range units {
		taken.addUnit(report, unit, written)
	}

	for _, file := range files {
		at := file.at + ".path"
		if before := taken.conflict(file.value.Path, file.value.host()); before != "" {
			hint := "keep one of them, or give each another hostName"
			if written[file.value.Path] != "" {
				hint = "leave the file out: criConfig writes it"
			}
			report.Warn(at, document.Quote(file.value.Path)+" given twice, first at "+before, hint)
			continue
		}
		taken.add(file.value.Path, file.value.host(), at)
	}

	for _, file := range files {
		checkParents(report, taken, file.at+".path", file.value.Path, file.value.host())
	}

	for _, file := range slices.Sorted(maps.Keys(written)) {
		checkParents(report, taken, written[file], file, "")
	}
}

// addUnit adds the paths of a unit's files.
func (p places) addUnit(report *document.Report, unit located[Unit], written map[string]string) {
	if unit.value.Content != nil {
		p.add(path.Join(unitDir, unit.value.Name), "", unit.at+".content")
	}
	for i, dropIn := range unit.value.DropIns {
		file := path.Join(unitDir, unit.value.Name+".d", dropIn.Name)
		at := item(unit.at+".dropIns", i)
		if before := written[file]; before != "" {
			report.Warn(at+".name", document.Quote(dropIn.Name)+" given twice, first at "+before,
				"choose another name: criConfig writes it")
			continue
		}
		p.add(file, "", at)
	}
}

// checkParents reports that file, at path at in the document, is below a file.
func checkParents(report *document.Report, taken places, at, file, host string) {
	if !strings.HasPrefix(file, "/") || len(file) > maxPath {
		return // Reported already.
	}
	for dir := path.Dir(file); dir != "/"; dir = path.Dir(dir) {
		if before := taken.conflict(dir, host); before != "" {
			report.Add(at, document.Quote(file)+" is below a file, "+before, "move one of them")
			return
		}
	}
}

func (p places) add(file, host, at string) {
	if p[file] == nil {
		p[file] = map[string]string{}
	}
	p[file][host] = at
}

// conflict returns where the path is already used on a node with that host
// name, or "".
func (p places) conflict(file, host string) string {
	hosts := p[file]
	if at, ok := hosts[host]; ok {
		return at
	}

	if host != "" {
		return hosts[""]
	}

	first := ""
	for _, at := range hosts { // The least, so that errors are deterministic.
		if first == "" || at < first {
			first = at
		}
	}

	return first
}

func (f File) host() string {
	if f.HostName == nil {
		return ""
	}
	return *f.HostName
}
