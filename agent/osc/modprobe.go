package osc

import (
	"path"
	"strings"

	"github.com/loam-os/loam/agent/document"
)

// modprobeDirs are the directories of modprobe.d(5) that a configuration may
// write.
var modprobeDirs = []string{"/etc/modprobe.d", "/usr/local/lib/modprobe.d"}

// requests are how the names begin for which the kernel asks modprobe on behalf of
// any process: protocols of sockets and file systems. The image gives them the
// module off, which does not exist. modprobe loads all modules that a name has, in
// whichever file, so that one more is loaded in spite of the image's line.
var requests = []string{"net_pf_", "fs_"}

const closedModule = "off"

// checkModprobe refuses a file of modprobe.d with which the kernel would load for
// any process what the image keeps closed: only machine.yaml opens that.
func checkModprobe(report *document.Report, file located[File]) {
	isRead := false
	for _, dir := range modprobeDirs {
		isRead = isRead || isAt(file.value.Path, dir)
	}
	if !isRead {
		return
	}

	at := file.at + ".content"
	content := file.value.Content
	if content.SecretRef != nil || content.ImageRef != nil {
		report.Add(at, "is refused: what modprobe reads must be in the document, so that it is checked",
			"write it as inline")
		return
	}
	text, _ := content.text()
	for line := range strings.SplitSeq(unwrap(text), "\n") {
		if opens(strings.Fields(line)) {
			report.Add(at, document.Quote(strings.TrimSpace(line))+" is refused: with it, any process "+
				"can have the kernel load a module that the image keeps closed",
				"name the module in kernel.modules of machine.yaml")
		}
	}
}

// opens reports whether a line of modprobe.d has modprobe load something for a
// name that the image has closed.
func opens(words []string) bool {
	if len(words) < 3 {
		return false
	}
	name := withoutDashes(words[1])
	switch words[0] {
	case "alias":
		return isRequest(name) && words[2] != closedModule
	case "install", "softdep":
		return matches(name, closedModule)
	}
	return false
}

// matches reports whether a pattern may stand for the name of a module: kmod
// compares them by fnmatch(3). A pattern that [path.Match] cannot read may.
func matches(pattern, module string) bool {
	is, err := path.Match(strings.ReplaceAll(pattern, "[!", "[^"), module)
	return is || err != nil
}

// isRequest reports whether the pattern of an alias may match a request: what
// comes before its first wildcard begins like one.
func isRequest(pattern string) bool {
	if i := strings.IndexAny(pattern, `*?[`); i >= 0 {
		pattern = pattern[:i]
		for _, request := range requests {
			if strings.HasPrefix(request, pattern) {
				return true
			}
		}
	}
	for _, request := range requests {
		if strings.HasPrefix(pattern, request) {
			return true
		}
	}
	return false
}

// withoutDashes returns a name as modprobe compares it: a dash is an underscore,
// except in brackets (underscores in shared/util.c of kmod).
func withoutDashes(name string) string {
	inBrackets := false
	return strings.Map(func(r rune) rune {
		switch {
		case r == '[':
			inBrackets = true
		case r == ']':
			inBrackets = false
		case r == '-' && !inBrackets:
			return '_'
		}
		return r
	}, name)
}

// unwrap returns the lines of a file of modprobe.d. A backslash at the end of a
// line takes the next line into it; any other is left out.
func unwrap(text string) string {
	var lines strings.Builder
	escaped := false
	for _, c := range []byte(text) {
		switch {
		case escaped && c == '\n':
			escaped = false
		case !escaped && c == '\\':
			escaped = true
		default:
			lines.WriteByte(c)
			escaped = false
		}
	}
	return lines.String()
}
