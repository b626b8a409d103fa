package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/loam-os/loam/agent/printable"
	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/cmd/loamctl/kubeconfig"
)

// Report is how a pool stands.
type Report struct {
	// Pool is the name of the pool.
	Pool string `json:"pool"`

	// State is "running", "paused", "halted" or "restoring": of the pool and, if
	// halted, of its configuration.
	State string `json:"state"`
	// Why is why it is paused.
	Why string `json:"why,omitempty"`

	// Nodes is the number of Nodes.
	Nodes int `json:"nodes"`

	// Hurry is a person's leave to change more nodes at once; nil if there is
	// none, or it has ended.
	Hurry *turns.Hurry `json:"now,omitempty"`

	// Configuration is the rollout of the configuration.
	Configuration Progress `json:"configuration"`
	// Halts are configurations that were halted before another one replaced them. If one
	// comes back, no node begins with it.
	Halts []Halt `json:"halts,omitempty"`
	// Systems are the rollouts of systems.
	Systems []Progress `json:"systems,omitempty"`

	// Turns are the nodes that have a turn, the longest first.
	Turns []Turn `json:"turns"`
	// Away are other Nodes that are not Ready, or are cordoned.
	Away []Away `json:"away"`
	// Pinned are the Nodes that an operator keeps from changing. The counts and
	// shares are of the others.
	Pinned []Pinned `json:"pinned"`
	// Held are the Nodes that keep their system, by their machine.yaml. Of a pool of
	// more than 250 nodes, they are known only once a change has failed.
	Held []Pinned `json:"held"`
	// Failed are the Nodes that remember a failure of one of these rollouts.
	Failed []Failed `json:"failed"`

	// Problems are why nodes take no turns although its rollouts run. Without the right
	// to read the policy, they are not known.
	Problems []string `json:"problems"`
}

// Halt is a configuration that stays halted.
type Halt struct {
	// Target is the start of its digest.
	Target string `json:"target"`
	// Why is why it was halted.
	Why string `json:"why"`
}

// String says it in a line.
func (h Halt) String() string {
	return fmt.Sprintf("configuration %.12s is halted if it comes back: %s", line(h.Target),
		line(h.Why))
}

// Failed is a change that failed on a Node.
type Failed struct {
	// Node is its name.
	Node string `json:"node"`

	turns.Failure

	// Retry says that the node is asked to try it once more, and has not yet.
	Retry bool `json:"retry,omitempty"`
}

// Pinned is a Node that does not change, or keeps its system.
type Pinned struct {
	// Node is its name.
	Node string `json:"node"`
	// Why is the value of its label or annotation.
	Why string `json:"why,omitempty"`
}

// Progress is how far a rollout is.
type Progress struct {
	turns.Rollout

	// Target is what it brings to the nodes.
	Target string `json:"target"`

	// PerHour is how many nodes were done in an hour, 0 if that is not known.
	PerHour float64 `json:"perHour,omitempty"`
	// Ends is when all are done at that rate, zero if that is not known.
	Ends time.Time `json:"ends,omitzero"`
}

// Turn is a node that has a turn.
type Turn struct {
	turns.Holder

	// For is for how long.
	For string `json:"for"`
}

// Away is a Node that is away without a turn.
type Away struct {
	// Node is its name.
	Node string `json:"node"`
	// Status is what keeps it away, in words.
	Status string `json:"status"`
}

// Report returns how the pool stands with a ledger, as of now. It lists the
// Nodes of a large pool without their metadata, unless a change has failed on one of
// them.
func (r Rollout) Report(ctx context.Context, l turns.Ledger, now time.Time) (Report, error) {
	report := Report{
		Pool:  r.Pool,
		State: string(l.State),
		Why:   l.Why,
		Nodes: l.Size,
		Hurry: l.Hurry,
		Halts: keptHalts(l),
		Turns: []Turn{},
		Away:  []Away{},

		Pinned: []Pinned{},
		Held:   []Pinned{},
		Failed: []Failed{},

		Problems: []string{},
	}
	if l.Hurry != nil && !now.Before(l.Hurry.Until) {
		report.Hurry = nil // It stays in the ledger until resume.
	}
	if l.State == turns.Running && l.Halted != "" {
		report.State = "halted"
	}

	for _, h := range holders(l) {
		age := max(0, now.Sub(h.Since)).Round(time.Second)
		report.Turns = append(report.Turns, Turn{Holder: h, For: age.String()})
	}
	marks, err := r.nodes(ctx, l, &report)
	if err != nil {
		return report, err
	}
	if mayStand(l, now) {
		p, err := r.policy(ctx)
		if err == nil {
			report.Problems = append(report.Problems,
				outOfBounds(p, l, r.Pool, overdue(p, l, marks, now))...)
		}
	}

	if err := r.pinned(ctx, l, &report); err != nil {
		return report, err
	}

	report.Configuration = progressOf(l.Rollout, report.changing(), now)
	for _, target := range slices.Sorted(maps.Keys(l.Systems)) {
		nodes := report.changing() - len(report.Held)
		report.Systems = append(report.Systems, progressOf(l.Systems[target], nodes, now))
	}
	return report, nil
}

// manyNodes is the size of a pool above which the metadata of its Nodes, 2 KB each,
// is not listed unless it is needed.
const manyNodes = 250

// nodes adds to a report the Nodes that are away, and returns the marks of all: those of
// a large pool are empty, unless a change has failed there.
func (r Rollout) nodes(
	ctx context.Context, l turns.Ledger, report *Report,
) (marks map[string]string, err error) {
	details := hasFailed(l) || l.Size <= manyNodes
	table, err := r.API.Table(ctx, nodesPath, l.Nodes, details)
	if err != nil {
		return nil, fmt.Errorf("list the Nodes: %w", err)
	}
	name := column(table, "Name")
	status := column(table, "Status")
	if name < 0 || status < 0 {
		return nil, errors.New("list the Nodes: no columns Name and Status")
	}

	holds := map[string]bool{}
	for _, t := range report.Turns {
		holds[t.Node] = true
	}

	marks = map[string]string{}
	report.Nodes = len(table.Rows)
	for _, row := range table.Rows {
		if len(row.Cells) <= max(name, status) {
			return nil, fmt.Errorf("list the Nodes: a row of %d cells", len(row.Cells))
		}
		away := Away{Node: fmt.Sprint(row.Cells[name]), Status: fmt.Sprint(row.Cells[status])}
		marks[away.Node] = row.Object.Metadata.Annotations[markAnnotation]
		if away.Status != "Ready" && !holds[away.Node] {
			report.Away = append(report.Away, away)
		}
		_, isPinned := row.Object.Metadata.Labels[pinnedLabel]
		if why, ok := row.Object.Metadata.Annotations[heldAnnotation]; ok && !isPinned {
			report.Held = append(report.Held, Pinned{Node: away.Node, Why: why})
		}
		retries := retriesOf(row.Object.Metadata.Annotations)
		for _, f := range failuresOf(l, row.Object.Metadata.Annotations) {
			report.Failed = append(report.Failed, Failed{
				Node:    away.Node,
				Failure: f,
				Retry:   slices.Contains(retries, f.Target),
			})
		}
	}
	return marks, nil
}

// hasFailed reports whether a change of a rollout has failed on a node.
func hasFailed(l turns.Ledger) bool {
	failed := l.Failed > 0 || l.Halted != ""
	for _, r := range l.Systems {
		failed = failed || r.Failed > 0 || r.Halted != ""
	}
	return failed
}

// failuresOf returns what a Node with these annotations remembers of the rollouts of
// a ledger.
func failuresOf(l turns.Ledger, annotations map[string]string) []turns.Failure {
	var failed []turns.Failure
	for _, key := range []string{failedAnnotation, failedSystemAnnotation} {
		text, ok := annotations[key]
		if !ok {
			continue
		}
		f, err := turns.ParseFailure(text)
		_, isSystem := l.Systems[f.Target]
		if err == nil && (f.Target == l.Target || isSystem) {
			failed = append(failed, f)
		}
	}
	return failed
}

// pinned adds to a report the Nodes that are pinned.
func (r Rollout) pinned(ctx context.Context, l turns.Ledger, report *Report) error {
	selector := pinnedLabel
	if l.Nodes != "" {
		selector = l.Nodes + "," + pinnedLabel
	}
	table, err := r.API.Table(ctx, nodesPath, selector, true)
	if err != nil {
		return fmt.Errorf("list the pinned Nodes: %w", err)
	}
	for _, row := range table.Rows {
		of := row.Object.Metadata
		report.Pinned = append(report.Pinned, Pinned{Node: of.Name, Why: of.Labels[pinnedLabel]})
	}
	return nil
}

// changing returns how many Nodes may change.
func (r Report) changing() int { return r.Nodes - len(r.Pinned) }

// column returns the index of a column, -1 if absent.
func column(t kubeconfig.Table, name string) int {
	return slices.IndexFunc(t.ColumnDefinitions,
		func(c struct{ Name string }) bool { return c.Name == name })
}

// progressOf returns how far a rollout is. A system that a pool goes back to counts on,
// so what is done is that of the last time.
func progressOf(r turns.Rollout, nodes int, now time.Time) Progress {
	if r.Version != "" && nodes > 0 && r.Done > nodes {
		r.Done = (r.Done-1)%nodes + 1
	}
	p := Progress{Rollout: r, Target: r.Target}
	took := now.Sub(r.Begun)
	if r.Begun.IsZero() || took <= 0 || r.Done == 0 {
		return p
	}

	p.PerHour = float64(r.Done) / took.Hours()
	if left := nodes - r.Done - r.Failed; left > 0 && r.Halted == "" {
		hours := float64(left) / p.PerHour
		p.Ends = now.Add(time.Duration(hours * float64(time.Hour))).Truncate(time.Second)
	}
	return p
}

// holders returns the turns, the oldest first.
func holders(l turns.Ledger) []turns.Holder {
	all := slices.Concat(slices.Collect(maps.Values(l.Holders)),
		slices.Collect(maps.Values(l.Restored)))
	slices.SortFunc(all, func(a, b turns.Holder) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Machine, b.Machine))
	})
	return all
}

// most is how many Nodes of a kind a page names.
const most = 20

// String returns the report as a page.
func (r Report) String() string {
	var page strings.Builder
	out := tabwriter.NewWriter(&page, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "pool\t%s, %d nodes\n", r.Pool, r.Nodes)
	state := r.State
	if why := cmp.Or(r.Why, r.Configuration.Halted); why != "" {
		state += ": " + line(why)
	}
	fmt.Fprintf(out, "state\t%s\n", state)
	if halt := r.Configuration.Halted; halt != "" && r.Why != "" {
		fmt.Fprintf(out, "halted\t%s\n", line(halt))
	}
	if h := r.Hurry; h != nil {
		fmt.Fprintf(out, "now\t%s may be away until %s: %s\n", h.Max,
			h.Until.Format(time.RFC3339), line(h.Why))
	}

	fmt.Fprintf(out, "target\t%.12s\n", line(cmp.Or(r.Configuration.Target, "-")))
	fmt.Fprintf(out, "done\t%s\n", r.Configuration.line(r.changing()))
	for _, halt := range r.Halts {
		fmt.Fprintf(out, "halted\t%s\n", halt)
	}
	for _, s := range r.Systems {
		fmt.Fprintf(out, "system\t%s\n", line(s.Version))
		fmt.Fprintf(out, "done\t%s\n", s.line(r.changing()-len(r.Held)))
		if s.Halted != "" {
			fmt.Fprintf(out, "halted\t%s\n", line(s.Halted))
		}
	}

	label := "turns"
	for _, t := range r.Turns[:min(most, len(r.Turns))] {
		what := t.Class.String()
		if t.Version != "" {
			what = "system " + line(t.Version)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\tfor %s\n", label, t.Machine, what, t.For)
		label = ""
	}
	rest(out, len(r.Turns))

	label = "away"
	for _, a := range r.Away[:min(most, len(r.Away))] {
		fmt.Fprintf(out, "%s\t%s\t%s\n", label, a.Node, a.Status)
		label = ""
	}
	rest(out, len(r.Away))

	label = "failed"
	for _, f := range r.Failed[:min(most, len(r.Failed))] {
		what := fmt.Sprintf("%.12s", line(f.Target))
		if f.Version != "" {
			what = "system " + f.Version
		}
		why := line(f.Why)
		if f.Retry {
			why = "is to be tried once more: " + why
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", label, f.Node, what, why)
		label = ""
	}
	rest(out, len(r.Failed))

	for _, list := range []struct {
		label string
		of    []Pinned
	}{
		{"pinned", r.Pinned},
		{"no upgrade", r.Held},
	} {
		label := list.label
		for _, p := range list.of[:min(most, len(list.of))] {
			fmt.Fprintf(out, "%s\t%s\t%s\n", label, p.Node, line(p.Why))
			label = ""
		}
		rest(out, len(list.of))
	}

	label = "stands"
	for _, text := range r.Problems {
		fmt.Fprintf(out, "%s\t%s\n", label, text)
		label = ""
	}
	_ = out.Flush() // A builder takes everything.
	return page.String()
}

// line returns a text that a node has written, on one line and fit for a terminal: a page
// must not say what one node likes.
func line(text string) string { return printable.Line(text, printable.Most) }

// rest says how many are not named.
func rest(out io.Writer, all int) {
	if all > most {
		fmt.Fprintf(out, "\tand %d more\n", all-most)
	}
}

// width is how many characters a bar has.
const width = 20

// line returns a bar, the counts, and what follows from them. A node that changes once
// more, to a value that only it has, counts each time.
func (p Progress) line(nodes int) string {
	nodes = max(0, nodes) // Nodes were pinned between two lists.
	done := min(p.Done, nodes)
	full := width * done / max(1, nodes)
	text := fmt.Sprintf("[%s%s] %d of %d nodes, %d failed", strings.Repeat("#", full),
		strings.Repeat("-", width-full), done, nodes, p.Failed)
	if p.PerHour > 0 && p.Done < nodes {
		text += fmt.Sprintf(", %.3g an hour", p.PerHour)
	}
	if !p.Ends.IsZero() {
		text += ", ends about " + p.Ends.Format(time.RFC3339)
	}
	return text
}
