package loop

import (
	"errors"
	"fmt"
	"regexp"
	"syscall"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
)

// Describe makes of err the one error that a person is shown: of a document
// the first; nil for nil.
func Describe(err error) *status.Error {
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
	return &status.Error{Problem: local.ReplaceAllString(err.Error(), ""), Hint: hint(err)}
}

// local is the node's own end of a connection in an error of package net, such as
// "read tcp 10.0.0.4:51234->10.0.0.9:443: connection reset by peer". Its port is
// another each time: with it, a problem that stays would be news at each try.
var local = regexp.MustCompile(`\S+:\d+->`)

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
