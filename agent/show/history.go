package show

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/status"
)

// History is the history of a node's generations.
type History struct {
	// Current is the running generation.
	Current string `json:"current,omitempty"`
	// Kept are the generations on disk, including the current one.
	Kept []string `json:"kept,omitempty"`

	// Pending is the change on trial; nil if none.
	Pending *Pending `json:"pending,omitempty"`

	// Records are the earlier changes, oldest first.
	Records []apply.Record `json:"records,omitempty"`

	// Held are configurations that are not applied automatically.
	Held []apply.Held `json:"held,omitempty"`
}

// MarshalJSON implements [json.Marshaler]: durations are text, such as "1m30s".
func (h History) MarshalJSON() ([]byte, error) {
	type plain History
	type record struct {
		apply.Record
		Took string `json:"took"`
	}

	var records []record
	for _, r := range h.Records {
		records = append(records, record{r, r.Took.String()})
	}
	return json.Marshal(struct {
		plain
		Records []record `json:"records,omitempty"`
	}{plain(h), records})
}

// Pending is a change under way.
type Pending struct {
	// To names its generation.
	To string `json:"to"`
	// From names the generation before; "" for the first.
	From string `json:"from,omitempty"`
	// Good is the generation to go back to.
	Good string `json:"good,omitempty"`

	// Began is when it began.
	Began time.Time `json:"began"`
	// Until is the end of a trial that was not confirmed.
	Until time.Time `json:"until,omitzero"`

	// Back is why this change goes back to an earlier generation.
	Back string `json:"back,omitempty"`

	// Source is the document that it comes from.
	Source string `json:"source,omitempty"`

	// Waits is what its verdict waits for, according to the agent; "" for
	// nothing.
	Waits string `json:"waits,omitempty"`
}

// Text returns the history as a table of 80 columns, with times in zone.
func (h History) Text(zone *time.Location) string {
	t := historyTable{History: h, zone: zone}
	if len(h.Records) == 0 && h.Pending == nil && h.Current == "" {
		return "nothing was applied yet\n"
	}

	fmt.Fprintf(&t.out, "  %-19s  %-20s  %-8s %7s  %s\n",
		"generation", "when", "outcome", "took", "source")
	marked := -1
	for i, r := range h.Records {
		if r.Generation == h.Current && (h.Pending == nil || h.Pending.To != h.Current) {
			marked = i
		}
	}

	for i, r := range h.Records {
		t.row(t.mark(r.Generation, i == marked), r.Generation, t.time(r.At), outcome(r),
			took(r), r.Source)
		t.note(reason(r))
	}

	t.pending()
	if marked < 0 && h.Current != "" && (h.Pending == nil || h.Pending.To != h.Current) {
		t.row("*", h.Current, "", "", "", "")
	}

	t.legend()
	t.held()
	return t.out.String()
}

// longest is the longest time that a change can take: a trial of 30 days.
const longest = 31 * 24 * time.Hour

// took returns how long a change has taken, "" if the wall clock was set
// meanwhile.
func took(r apply.Record) string {
	if r.Took > longest {
		return ""
	}
	return r.Took.Round(100 * time.Millisecond).String()
}

type historyTable struct {
	History
	zone *time.Location
	out  strings.Builder
	// gone says that the table lists a generation that the node no longer has.
	gone bool
}

func (t *historyTable) row(mark, name, at, outcome, took, source string) {
	line := fmt.Sprintf("%-1s %-19s  %-20s  %-8s %7s  %s", mark, name, at, outcome, took, source)
	t.out.WriteString(strings.TrimRight(line, " ") + "\n")
}

// width is the width of the table: a line of 80 columns would wrap on some terminals.
const width = 79

func (t *historyTable) note(text string) {
	for _, line := range status.Wrap(text, width-4) {
		t.out.WriteString("    " + line + "\n")
	}
}

func (t *historyTable) mark(name string, current bool) string {
	switch {
	case current:
		return "*"
	case slices.Contains(t.Kept, name):
		return " "
	}
	t.gone = true
	return "-"
}

// outcome says in one word what became of a change: an operator has asked for a
// rollback, and a node reverts a bad change by itself.
func outcome(r apply.Record) string {
	if r.Operator {
		return "rollback"
	}
	return string(r.Outcome)
}

func reason(r apply.Record) string {
	if r.Outcome == apply.Reverted {
		return "back from " + r.From + ": " + r.Reason
	}
	return r.Reason
}

func (t *historyTable) pending() {
	p := t.Pending
	switch {
	case p == nil:
		return
	case p.To == "":
		t.note("a change is under way, whose journal cannot be read")
		return
	}

	t.row(t.mark(p.To, p.To == t.Current), p.To, t.time(p.Began), "pending", "", p.Source)
	switch {
	case p.Back != "":
		t.note("back from " + p.From + ": " + p.Back)
	case !p.Until.IsZero():
		t.note("on trial until " + t.time(p.Until))
		t.note("`loam confirm` keeps it, `loam rollback` ends it")
	}

	if p.Waits != "" {
		t.note(p.Waits)
	} else if p.Back == "" && p.Until.IsZero() {
		t.note("its units have to prove themselves")
	}
}

func (t *historyTable) legend() {
	t.out.WriteString("\n* current")
	if t.gone {
		t.out.WriteString(", - no longer on the node")
	}
	t.out.WriteString("\n")
}

func (t *historyTable) held() {
	if len(t.Held) == 0 {
		return
	}
	t.out.WriteString("\nheld: not applied again unless asked for with `loam apply`\n")
	for _, h := range t.Held {
		begin := fmt.Sprintf("  %s  %s  ", h.Digest, t.time(h.At))
		for _, line := range status.Wrap(h.Why, width-len(begin)) {
			t.out.WriteString(begin + line + "\n")
			begin = strings.Repeat(" ", len(begin))
		}
	}
}

func (t *historyTable) time(at time.Time) string {
	return at.In(t.zone).Format("2006-01-02 15:04 MST")
}
