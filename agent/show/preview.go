package show

import (
	"strings"

	"github.com/loam-os/loam/agent/plan"
)

// Preview is a plan, and what it does not say.
type Preview struct {
	plan.Plan
	// Notes are what else an operator should know before the plan is carried out.
	Notes []string `json:"notes,omitempty"`
}

// String returns the plan and the notes, a line each.
func (p Preview) String() string {
	var out strings.Builder
	out.WriteString(p.Plan.String())
	for i, note := range p.Notes {
		if i == 0 {
			out.WriteString("notes\n")
		}
		out.WriteString("  " + note + "\n")
	}
	return out.String()
}
