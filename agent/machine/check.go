package machine

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
)

var (
	label      = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
	hostname   = regexp.MustCompile(`^` + label + `(\.` + label + `)*$`)
	terminal   = regexp.MustCompile(`^(console|tty[A-Za-z]*[0-9]{1,3}|hvc[0-9]{1,3})$`)
	credential = regexp.MustCompile(`^loam\.[A-Za-z0-9_.-]+$`)
)

// maxHostname is HOST_NAME_MAX of Linux.
const maxHostname = 64

func check(report *document.Report, m Machine) {
	if m.Hostname != "" && (len(m.Hostname) > maxHostname || !hostname.MatchString(m.Hostname)) {
		report.Add("hostname", document.Quote(m.Hostname)+" is not a host name",
			"write at most 64 lower-case letters, digits, dashes and dots")
	}
	checkSource(report, m.Source)
	if directory := m.Contents.Directory; directory != nil {
		checkPath(report, "contents.directory.path", directory.Path, "directory", "/var/lib/contents")
	}
	for i, name := range m.DebugShell {
		at := fmt.Sprintf("debugShell[%d]", i)
		switch {
		case !terminal.MatchString(name):
			report.Add(at, document.Quote(name)+" is not a terminal", "write a name such as tty2, ttyS1 or hvc0, without /dev/")
		case slices.Contains(m.DebugShell[:i], name):
			report.Add(at, document.Quote(name)+" given twice", "keep one of them")
		}
	}
}

func checkSource(report *document.Report, source Source) {
	kinds := 0
	if source.File != nil {
		kinds++
		checkPath(report, "source.file.path", source.File.Path, "file", "/loam/config.yaml")
	}
	if source.ESP != nil {
		kinds++
		checkPath(report, "source.esp.path", source.ESP.Path, "file", "/loam/config.yaml")
	}
	if source.Credential != nil {
		kinds++
		if name := source.Credential.Name; !credential.MatchString(name) || len(name) > 255 {
			report.Add("source.credential.name", document.Quote(name)+" is not the name of a credential for Loam",
				"write a name that begins with loam. such as loam.config")
		}
	}
	if kinds > 1 {
		report.Add("source", "has more than one kind", "keep one of file, esp and credential")
	}
}

// checkPath wants the absolute path of what, such as example.
func checkPath(report *document.Report, at, path, what, example string) {
	control := strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f })
	switch {
	case path == "":
		report.Add(at, "empty", "write an absolute path, such as "+example)
	case !strings.HasPrefix(path, "/") || path == "/" || filepath.Clean(path) != path || control:
		report.Add(at, document.Quote(path)+" is not the absolute path of a "+what,
			"begin it with / and leave out . and .. and a / at the end")
	}
}
