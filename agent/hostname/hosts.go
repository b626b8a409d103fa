package hostname

import (
	"slices"
	"strings"
)

// HostsFile is hosts(5), relative to the root directory. Programs without
// systemd's own look-ups of names read it, too: those of Go, and of pods in the
// network of the node.
const HostsFile = "etc/hosts"

// ownAddress is what Debian gives a machine that has no address of its own yet:
// it is always there, and the kubelet takes it for no address of the Node.
const ownAddress = "127.0.1.1"

// Hosts returns the text of a hosts(5) with a line for the machine itself: its
// name and, if that has a domain, the part before it. It replaces an earlier one.
func Hosts(text, name string) string {
	if !Valid(name) {
		return text
	}

	lines := slices.Collect(strings.Lines(text))
	lines = slices.DeleteFunc(lines, func(line string) bool {
		fields := strings.Fields(line)
		return len(fields) > 0 && fields[0] == ownAddress
	})
	if last := len(lines) - 1; last >= 0 && !strings.HasSuffix(lines[last], "\n") {
		lines[last] += "\n"
	}

	names := name
	if short, _, hasDomain := strings.Cut(name, "."); hasDomain {
		names += " " + short
	}
	return strings.Join(lines, "") + ownAddress + "\t" + names + "\n"
}
