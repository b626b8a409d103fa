package plan

import (
	"fmt"
	"strings"
)

// String is the plan for people: a line for each path and each unit.
func (p Plan) String() string {
	if p.Empty() {
		return "nothing to do\n"
	}
	var out strings.Builder
	from := p.From
	if from == "" {
		from = "nothing"
	}
	fmt.Fprintf(&out, "from %s to %s\n", from, p.To)
	for _, f := range p.Files {
		fmt.Fprintf(&out, "  %-8s %s\n", f.Change, f.Path)
	}
	if p.Reload {
		out.WriteString("  reload   systemd\n")
	}
	for _, a := range p.Units {
		fmt.Fprintf(&out, "  %-8s %s: %s\n", a.Verb, a.Unit, strings.Join(a.Why, ", "))
	}
	return out.String()
}
