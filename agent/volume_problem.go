package agent

import (
	"strings"

	"github.com/loam-os/loam/agent/status"
)

// problemOf is what is wrong with a data volume, for the status.
func problemOf(v *status.Volume) *status.Error {
	if v == nil || v.Problem == "" {
		return nil
	}
	problem, hint, _ := strings.Cut(v.Problem, "\nhint: ")
	problem, more, _ := strings.Cut(problem, "\n")
	if more != "" {
		hint = "loam disks machine.yaml shows each disk, and the line of machine.yaml that would take it"
	}
	return &status.Error{Problem: problem, Hint: hint}
}
