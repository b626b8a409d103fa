package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/printable"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade"
)

// FailureKind is what went wrong.
type FailureKind string

const (
	// OfNow means that something is wrong with the node now.
	OfNow FailureKind = "now"
	// OfConfiguration means that a configuration was applied and did not stay.
	OfConfiguration FailureKind = "configuration"
	// OfSystem means that the node fell back from a release.
	OfSystem FailureKind = "system"
)

// Failure is something that went wrong on a node.
type Failure struct {
	// Kind is "now" for what is wrong with the node now, "configuration" for a
	// configuration that did not stay, and "system" for a release that did not.
	Kind FailureKind `json:"kind"`

	// Name is the generation, or the version of the release.
	Name string `json:"name,omitempty"`
	// RootHash is the verity root hash of the release, "" for a configuration.
	RootHash string `json:"rootHash,omitempty"`

	// At is when the node went back, absent for what is wrong now.
	At time.Time `json:"at,omitzero"`

	// Problem is what went wrong.
	Problem string `json:"problem"`
	// Hint is what to do about it, "" if unknown.
	Hint string `json:"hint,omitempty"`
	// Unit is the unit that it is about, "" if unknown.
	Unit string `json:"unit,omitempty"`

	// Evidence is what was logged at that time.
	Evidence []string `json:"evidence,omitempty"`
}

// Why is what went wrong on a node.
type Why struct {
	// Failures are the newest first.
	Failures []Failure `json:"failures"`

	// System is the image that runs, with its version; "" if neither is known.
	System string `json:"system"`
}

// Explain returns what went wrong on a node with this status, history and these
// holds, fit for a terminal. The evidence of units is for the caller to add.
func Explain(s status.Status, history []apply.Record, held []apply.Held) Why {
	why := Why{
		System:   strings.TrimSpace(s.ImageID + " " + s.ImageVersion),
		Failures: []Failure{},
	}
	for _, r := range history {
		if f, failed := ofRecord(r, held); failed {
			why.Failures = append(why.Failures, f)
		}
	}
	if s.Upgrade != nil {
		for _, f := range s.Upgrade.Failed {
			why.Failures = append(why.Failures, Failure{
				Kind:     OfSystem,
				Name:     f.Version,
				RootHash: f.RootHash,
				At:       f.At,
				Problem:  f.Reason,
				Hint:     upgrade.HintOf(f.Reason),
				Evidence: f.Evidence,
			})
		}
	}
	slices.SortStableFunc(why.Failures, func(a, b Failure) int { return b.At.Compare(a.At) })

	// The history has a change that was reverted, with its time.
	if e := s.Error; e != nil && s.Refusal != status.Reverted {
		plain := *e
		plain.Hint = ""
		now := Failure{
			Kind:    OfNow,
			Problem: plain.String(),
			Hint:    e.Hint,
			Unit:    e.Unit,
		}
		why.Failures = slices.Insert(why.Failures, 0, now)
	}
	if c := s.Cluster; c != nil && c.Problem != "" {
		why.Failures = slices.Insert(why.Failures, 0, ofCluster(*c))
	}
	return printable.Copy(why)
}

// ofCluster returns the failure of a node that does not get on with its cluster.
func ofCluster(c status.Cluster) Failure {
	f := Failure{Kind: OfNow, Problem: c.Problem, Hint: c.Hint}
	if c.Code != "" {
		f.Problem = string(c.Code) + ": " + c.Problem
	}
	if c.Tried != "" {
		f.Evidence = []string{"tried " + c.Tried}
	}
	return f
}

// ofRecord returns the failure that a record of the history tells of.
func ofRecord(r apply.Record, held []apply.Held) (Failure, bool) {
	f := Failure{Kind: OfConfiguration, At: r.At, Problem: r.Reason}
	switch {
	case r.Outcome == apply.Failed:
		f.Name = r.Generation
	case r.IsTakenBack():
		f.Name = r.From
	default:
		return Failure{}, false
	}

	for _, h := range held {
		if h.Generation == f.Name {
			f.Unit = h.Unit
		}
	}
	return f, true
}

// Text returns the newest failure with its evidence, or all of them.
func (w Why) Text(all bool) string {
	switch {
	case len(w.Failures) == 0 && w.System == "":
		return "nothing has gone wrong on this node\n"
	case len(w.Failures) == 0:
		return "nothing has gone wrong on this node; it runs " + w.System + "\n"
	}

	var out strings.Builder
	for i, f := range w.Failures {
		if i > 0 && !all {
			fmt.Fprintf(&out, "%d more: loam why --all\n", len(w.Failures)-1)
			break
		}
		f.write(&out)
	}
	return out.String()
}

func (f Failure) write(out *strings.Builder) {
	at := f.At.UTC().Format(status.Clock)
	switch f.Kind {
	case OfNow:
		fmt.Fprintf(out, "now: %s\n", f.Problem)
	case OfConfiguration:
		fmt.Fprintf(out, "generation %s failed on %s: %s\n", f.Name, at, f.Problem)
	case OfSystem:
		fmt.Fprintf(out, "%s failed on %s: %s\n", f.Name, at, f.Problem)
	}

	if f.RootHash != "" {
		fmt.Fprintf(out, "  root hash %s\n", f.RootHash)
	}
	if f.Hint != "" {
		fmt.Fprintf(out, "  hint: %s\n", f.Hint)
	}
	for _, line := range f.Evidence {
		fmt.Fprintf(out, "  | %s\n", printable.Line(line, printable.Most))
	}
	if len(f.Evidence) == 0 {
		out.WriteString(f.noEvidence())
	}
}

// noEvidence says that there is no log where one was to be expected.
func (f Failure) noEvidence() string {
	switch {
	case f.Kind == OfSystem && f.Problem != upgrade.RolledBack:
		return "  the boots that failed have left no log\n"
	case f.Unit != "":
		return "  unit " + f.Unit + " has left no log of that time\n"
	}
	return ""
}
