package directive

import (
	"maps"
	"slices"
	"strings"
)

// Checked returns the sections and names of the directives whose values are
// checked. What sections share is in one of them.
func Checked() [][2]string {
	var all [][2]string
	seen := map[string]bool{}
	order := []string{"Unit", "Service", "Socket", "Mount", "Automount", "Timer", "Path", "Swap"}
	for _, section := range order {
		for _, name := range table()[section] {
			own := section + "." + name
			_, isOwn := byName()[own]
			_, shared := byName()[name]
			isExec := strings.HasPrefix(name, "Exec") && name != "ExecPaths" && name != "ExecSearchPath"
			key := name
			if isOwn {
				key = own
			}
			if (!isOwn && !shared && !isExec) || seen[key] {
				continue
			}
			seen[key] = true
			all = append(all, [2]string{section, name})
		}
	}

	for _, name := range slices.Sorted(maps.Keys(byName())) {
		if !seen[name] {
			panic("no section has " + name)
		}
	}
	return all
}
