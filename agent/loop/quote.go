package loop

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/unit"
)

// Quote is the last line of the log of a unit. The unit has been in its state
// since Since.
type Quote struct {
	Unit  string
	Since time.Duration
	Line  string // empty if the log has no line
}

// withLog returns a problem, followed by the last line of the log if the log has
// a line.
func withLog(problem, line string) string {
	if line == "" {
		return problem
	}
	return problem + "; its log ends: " + line
}

// of returns the line if it belongs to the state s.
func (q Quote) of(s unit.State) string {
	if q.Unit != s.Name || q.Since != s.Since {
		return ""
	}
	return q.Line
}

// quoteFailure returns a line of the log of the unit that has failed. It reads
// the log only if another unit has failed, or the same one again.
func (n *node) quoteFailure(ctx context.Context) Quote {
	failure := n.state.Current.failure()
	if failure == nil {
		return Quote{}
	}

	observed, _ := n.state.Current.state(failure.Unit)
	last := n.state.Current.Quote
	if last.Unit == observed.Name && last.Since == observed.Since {
		return last
	}
	return Quote{observed.Name, observed.Since, n.lastLine(ctx, observed.Name)}
}

// quoteLog returns a verdict with what the units that are not well have logged
// last. Reasons go to history, status and cluster.
func (n *node) quoteLog(ctx context.Context, v health.Verdict) health.Verdict {
	if v.Word == health.Bad && v.Unit != "" {
		v.Reason = withLog(v.Reason, n.lastLine(ctx, v.Unit))
	}
	if len(v.Unwell) == 0 {
		return v
	}

	v.Unwell = slices.Clone(v.Unwell)
	var reasons []string
	for i, u := range v.Unwell {
		v.Unwell[i].How = withLog(u.How, n.lastLine(ctx, u.Unit))
		reasons = append(reasons, v.Unwell[i].How)
	}
	v.Reason = strings.Join(reasons, "; ")
	return v
}

// lastLine returns what a unit has logged last since the last change began.
// What it logged before that does not explain what the change has come to.
func (n *node) lastLine(ctx context.Context, unit string) string {
	age := n.host.Uptime() - n.state.Change.Began
	return n.host.LastLine(ctx, unit, age)
}
