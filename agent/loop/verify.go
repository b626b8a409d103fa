package loop

import (
	"context"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/control"
)

// askVerify asks for all managed files to be compared.
type askVerify control.VerifyRequest

// Verify implements [control.Agent].
func (q Requests) Verify(
	ctx context.Context,
	r control.VerifyRequest,
) (control.VerifyReport, error) {
	got := q.send(ctx, askVerify(r), nil)
	return got.report, got.err
}

func (askVerify) admit(s State) (Step, error) {
	return Step{Kind: Verify, Content: s.Desired.Content}, nil
}

// Verify compares all managed files with what they should be.
var Verify = &Kind{
	name:    "verify",
	perform: performVerify,
	after:   afterVerify,
}

func performVerify(ctx context.Context, w worker, step Step) (r Result) {
	asked := step.Request.Ask.(askVerify)
	r.Verified, r.Err = w.engine.Verify(ctx, step.Content, asked.Repair, asked.Progress)
	return r
}

// afterVerify answers the caller of a verification.
func afterVerify(s State, step Step, r Result, now time.Duration) (State, []Effect) {
	s, effects := repaired(s, repairedBy(r.Verified), now)
	got := response{report: reportOf(r.Verified), err: r.Err}
	effects = append(effects, respond(step.Request, got)...)
	return s, append(effects, ObserveUnits)
}

// repairedBy returns the paths that a verification has repaired.
func repairedBy(v apply.Verified) []string {
	var paths []string
	for _, bad := range v.Bad {
		if bad.Repaired {
			paths = append(paths, bad.Path)
		}
	}
	return paths
}

// reportOf returns a verification as the caller gets it.
func reportOf(v apply.Verified) control.VerifyReport {
	report := control.VerifyReport{Checked: v.Checked, Bytes: v.Bytes}
	for _, bad := range v.Bad {
		report.Bad = append(report.Bad, control.Finding(bad))
	}
	return report
}
