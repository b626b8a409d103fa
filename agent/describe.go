package agent

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
)

// describe makes of err the one error that a person is shown: of a document
// the first; nil for nil.
func describe(err error) *status.Error {
	var wrong document.Errors
	var cannot *generation.Error
	var job *unit.JobError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong) && len(wrong) > 0:
		e := wrong[0]
		if more := len(wrong) - 1; more > 0 {
			e.Problem += fmt.Sprintf(" (and %d more: journalctl -u loam-agent)", more)
		}
		return &status.Error{Path: e.Path, Document: e.File, Line: e.Line, Problem: e.Problem, Hint: e.Hint}
	case errors.As(err, &cannot):
		return &status.Error{Path: cannot.Place(), Problem: cannot.Problem, Hint: cannot.Hint}
	case errors.As(err, &job):
		return &status.Error{Unit: job.Unit, Problem: job.Error(), Hint: "journalctl -u " + job.Unit}
	}
	return &status.Error{Problem: err.Error(), Hint: hint(err)}
}

// hint is what can be done about an error of the file system.
func hint(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "free room on the state partition, `df -h /var` and `df -i /var`; the node goes on by itself"
	case errors.Is(err, syscall.EROFS):
		return "the kernel made a file system read-only, see `dmesg`; the disk may be failing"
	}
	return ""
}
