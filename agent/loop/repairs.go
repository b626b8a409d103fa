package loop

import (
	"context"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/control"
)

// repairs takes in what was found at the managed paths.
type repairs struct {
	node   *node
	report reporter
}

func (c repairs) repaired(ctx context.Context, before State, r Result) {
	c.node.repairLater(r.Err)
	c.report.repaired(r.Paths)
	if len(r.Paths) > 0 || before.Faults.Drift != c.node.state.Faults.Drift {
		c.node.observeUnits(ctx)
	}
}

// verified answers the caller of a verification.
func (c repairs) verified(ctx context.Context, step Step, r Result) {
	c.report.repaired(repairedBy(r.Verified))
	step.Request.response <- response{report: reportOf(r.Verified), err: r.Err}
	c.node.observeUnits(ctx)
}

// reportOf returns a verification as the caller gets it.
func reportOf(v apply.Verified) control.VerifyReport {
	report := control.VerifyReport{Checked: v.Checked, Bytes: v.Bytes}
	for _, bad := range v.Bad {
		report.Bad = append(report.Bad, control.Finding(bad))
	}
	return report
}
