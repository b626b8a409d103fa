package osc

import (
	"path"
	"strings"

	"github.com/loam-os/loam/agent/document"
)

// unitDir is where systemd finds the units of an administrator.
const unitDir = "/etc/systemd/system"

// checkTwice reports what two entries of one unit contradict each other in. A
// list may name a unit several times, each adding something; Status overrides
// Spec; a drop-in is given once.
func checkTwice(report *document.Report, units []located[Unit]) {
	first := map[string]string{}
	once := func(key, at string) {
		if before, twice := first[key]; twice {
			report.Add(at, "given twice, first at "+before, "keep one of them")
			return
		}
		first[key] = at
	}
	for _, unit := range units {
		value := unit.value
		list, _, _ := strings.Cut(unit.at, "[")
		if value.Content != nil {
			once(list+" content "+value.Name, unit.at+".content")
		}
		if value.Command != nil {
			once(list+" command "+value.Name, unit.at+".command")
		}
		if value.Enable != nil {
			once(list+" enable "+value.Name, unit.at+".enable")
		}
		for i, dropIn := range value.DropIns {
			once("drop-in "+value.Name+" "+dropIn.Name, item(unit.at+".dropIns", i)+".name")
		}
	}
}

// places are the paths taken, by path and then by host; host "" is every one.
// The values are paths in the document.
type places map[string]map[string]string

// checkPlaces reports files that would be in each other's place on some node:
// the same path twice, or one path within another. Unit files count too.
func checkPlaces(report *document.Report, files []located[File], units []located[Unit]) {
	taken := places{}
	for _, unit := range units {
		if unit.value.Content != nil {
			taken.add(path.Join(unitDir, unit.value.Name), "", unit.at+".content")
		}
		for i, dropIn := range unit.value.DropIns {
			taken.add(path.Join(unitDir, unit.value.Name+".d", dropIn.Name), "", item(unit.at+".dropIns", i))
		}
	}
	for _, file := range files {
		at := file.at + ".path"
		if before := taken.conflict(file.value.Path, file.value.host()); before != "" {
			report.Add(at, document.Quote(file.value.Path)+" given twice, first at "+before,
				"keep one of them, or give each another hostName")
			continue
		}
		taken.add(file.value.Path, file.value.host(), at)
	}
	for _, file := range files {
		checkParents(report, taken, file)
	}
}

func checkParents(report *document.Report, taken places, file located[File]) {
	if !strings.HasPrefix(file.value.Path, "/") || len(file.value.Path) > maxPath {
		return // Reported already.
	}
	for dir := path.Dir(file.value.Path); dir != "/"; dir = path.Dir(dir) {
		if before := taken.conflict(dir, file.value.host()); before != "" {
			report.Add(file.at+".path", document.Quote(file.value.Path)+" is below a file, "+before, "move one of them")
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

// conflict is where the path is already taken on a node of that host, or "".
func (p places) conflict(file, host string) string {
	hosts := p[file]
	if at, ok := hosts[host]; ok {
		return at
	}
	if host != "" {
		return hosts[""]
	}
	first := ""
	for _, at := range hosts { // The least, so that errors do not vary.
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
