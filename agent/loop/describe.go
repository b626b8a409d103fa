package loop

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"syscall"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/printable"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/network"
)

// Describe returns err as the one error that an operator sees: the first of a
// document's. It returns nil for nil. Its texts are bounded, and fit for a terminal.
func Describe(err error) *status.Error {
	described := printable.Copy(describe(err))
	if code := fault.Of(err); code.IsSpecific() {
		described.Code = code
	}
	return described
}

func describe(err error) *status.Error {
	var wrong document.Errors
	var cannot *generation.Error
	var job *unit.JobError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong) && len(wrong) > 0:
		return describeDocument(wrong)
	case errors.As(err, &cannot):
		return &status.Error{
			Path:    cannot.Place(),
			Problem: cannot.Problem,
			Hint:    cannot.Hint,
		}
	case errors.As(err, &job):
		return &status.Error{
			Unit:    job.Unit,
			Problem: job.Error(),
			Hint:    "`loam logs " + job.Unit + "`",
		}
	}

	return &status.Error{
		Path:    document.PathOf(err),
		Problem: network.WithoutLocal(err.Error()),
		Hint:    cmp.Or(hint.Of(err), advice(err), fault.Of(err).Hint()),
	}
}

// describeDocument returns the first error of a document, and how many more
// there are.
func describeDocument(wrong document.Errors) *status.Error {
	first := wrong[0]
	problem := first.Problem
	if more := len(wrong) - 1; more > 0 {
		problem += fmt.Sprintf(" (and %d more: `loam logs`)", more)
	}
	return &status.Error{
		Path:     first.Path,
		Document: first.File,
		Line:     first.Line,
		Problem:  problem,
		Hint:     first.Hint,
	}
}

// advice returns what can be done about an error of the file system or of the
// clock.
func advice(err error) string {
	invalid, _ := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case invalid.Reason == x509.Expired:
		return "this node's clock may be wrong: `timedatectl`"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "free room on the state partition, `df -h /var` and `df -i /var`; " +
			"the node goes on by itself"
	case errors.Is(err, syscall.EROFS):
		return "the kernel made a file system read-only, see `dmesg`; a restart of the machine " +
			"repairs the state partition"
	}
	return ""
}
