package cri

import (
	"fmt"
	"strings"
)

// Hosts returns the text of a registry's hosts.toml (containerd docs/hosts.md).
// containerd tries the hosts in the order of the text.
func Hosts(registry Registry) string {
	var b strings.Builder
	b.WriteString("# Written by Loam.\n")

	if registry.Server != "" {
		fmt.Fprintf(&b, "server = %s\n", quote(registry.Server))
	}

	for _, host := range registry.Hosts {
		capabilities := host.Capabilities
		if len(capabilities) == 0 {
			capabilities = []string{"pull", "resolve"}
		}

		fmt.Fprintf(&b, "\n[host.%s]\ncapabilities = %s\n", quote(host.URL), list(capabilities))
		if len(host.CACerts) > 0 {
			fmt.Fprintf(&b, "ca = %s\n", list(host.CACerts))
		}
		if host.OverridePath {
			b.WriteString("override_path = true\n")
		}
	}

	return b.String()
}

func list(values []string) string {
	quoted := make([]string, len(values))
	for i, value := range values {
		quoted[i] = quote(value)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// quote returns text as a basic string of TOML 1.0.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')

	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}

	b.WriteByte('"')
	return b.String()
}
