package plan

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// String returns the plan as text: a line for each path and each unit, with all
// reasons.
func (p Plan) String() string {
	var out strings.Builder
	if p.Empty() {
		out.WriteString("nothing to do\n")
	} else {
		fmt.Fprintf(&out, "from %s to %s\n", cmp.Or(p.From, "nothing"), p.To)
	}

	if len(p.Files) > 0 {
		out.WriteString("files\n")
	}

	for _, f := range p.Files {
		fmt.Fprintf(&out, "  %-8s %s%s\n", f.Change, f.Path, readLater(f.Path))
	}

	writeUnits(&out, p.Reload, slices.Concat(p.Units, p.Kept))
	return out.String()
}

// bootDirs are the directories that a unit of the image reads once, at boot.
var bootDirs = []struct{ dir, unit string }{
	{"/etc/modules-load.d", "systemd-modules-load.service"},
	{"/etc/sysctl.d", "systemd-sysctl.service"},
	{"/etc/tmpfiles.d", "systemd-tmpfiles-setup.service"},
}

// idle are the places that a unit reads which the image has and does not start.
var idle = []struct{ place, unit string }{
	{"/etc/binfmt.d", "systemd-binfmt.service"},
	{"/etc/logrotate.conf", "logrotate.timer"},
	{"/etc/logrotate.d", "logrotate.timer"},
	{"/etc/nftables.conf", "nftables.service"},
}

// readLater says of a file that it has no effect before the next boot, unless
// the configuration restarts the unit that reads it, or that it has none at all,
// unless the configuration enables that unit.
func readLater(file string) string {
	for _, place := range bootDirs {
		if path.Dir(file) == place.dir {
			return ", read at boot by " + place.unit
		}
	}
	for _, i := range idle {
		if file == i.place || path.Dir(file) == i.place {
			return ", read by " + i.unit + ", which the image does not enable"
		}
	}
	return ""
}

// maxName is the widest column of names: a few long ones do not move the rest.
const maxName = 40

func writeUnits(out *strings.Builder, reload bool, actions []Action) {
	if !reload && len(actions) == 0 {
		return
	}

	out.WriteString("units\n")
	width := 0
	for _, a := range actions {
		if len(a.Unit) <= maxName {
			width = max(width, len(a.Unit))
		}
	}

	if reload {
		out.WriteString("  reload   systemd\n")
	}

	for _, a := range actions {
		by := ""
		if a.By != "" {
			by = "by systemd: "
		}
		fmt.Fprintf(out, "  %-8s %-*s  %s%s\n",
			a.Verb, width, a.Unit, by, strings.Join(a.Why, ", "))
	}
}
