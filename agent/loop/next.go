package loop

import "github.com/loam-os/loam/agent/health"

// Next returns what to do now. The order says what may wait: what was cut off
// is completed first, a verdict is carried out before the node changes again,
// and drift is repaired before a source that never stops changing is read.
func Next(s State) Step {
	switch {
	case s.Busy:
		return Step{Kind: Wait}
	case s.Due.Judge:
		return Step{Kind: Judge}
	case s.Facts.Reset != nil:
		return nextInReset(s)
	case s.Due.Resume:
		return Step{Kind: Resume, Have: s.Current.Generation}
	case s.Change.Verdict.Word == health.Good, s.Change.Verdict.Word == health.Bad:
		return Step{Kind: Conclude, Verdict: s.Change.Verdict, Have: s.Current.Generation}
	case len(s.Drift.Touched) > 0:
		return Step{Kind: Repair, Paths: s.Drift.Touched, Content: s.Desired.Content}
	case s.Due.Read:
		return Step{Kind: Read, Have: s.Current.Generation, Desired: s.Desired}
	case s.Due.Probe:
		return Step{Kind: Probe, Probes: s.Facts.Waits}
	case s.Due.Start && s.Faults.Unfinished == nil:
		return Step{Kind: Start}
	case s.Due.Prune:
		return Step{Kind: Prune}
	}

	return Step{Kind: Wait}
}

// nextInReset returns what a node in a reset does: nothing but what a request
// asks for.
func nextInReset(s State) Step {
	if s.Due != (Due{}) || len(s.Drift.Touched) > 0 {
		return Step{Kind: Idle}
	}
	return Step{Kind: Wait}
}
