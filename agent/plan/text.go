package plan

import (
	"fmt"
	"slices"
	"strings"
)

// String is the plan for people: a line for each path and each unit.
func (p Plan) String() string {
	var out strings.Builder
	from := p.From
	if from == "" {
		from = "nothing"
	}
	if p.Empty() {
		out.WriteString("nothing to do\n")
	} else {
		fmt.Fprintf(&out, "from %s to %s\n", from, p.To)
	}
	for _, f := range p.Files {
		fmt.Fprintf(&out, "  %-8s %s\n", f.Change, f.Path)
	}
	if p.Reload {
		out.WriteString("  reload   systemd\n")
	}
	for _, a := range slices.Concat(p.Units, p.Kept) {
		by := ""
		if a.By != "" {
			by = " (by systemd, with " + a.By + ")"
		}
		fmt.Fprintf(&out, "  %-8s %s%s: %s\n", a.Verb, a.Unit, by, strings.Join(a.Why, ", "))
	}
	return out.String()
}
