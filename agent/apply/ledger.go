package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/loam-os/loam/agent/durable"
)

// Ledger is what a node remembers of its configurations: the history of its
// changes, and the configurations that are held. [History] and [HeldList] read
// the same without the right to write.
type Ledger struct {
	// State is /var/lib/loam.
	State *durable.Dir
	// Now is the wall clock.
	Now func() time.Time
}

// Record is one line of the node's history: a change and its outcome.
type Record struct {
	// At is when the change began.
	At time.Time `json:"at"`
	// Took is how long it took until its outcome.
	Took time.Duration `json:"took"`
	// From names the generation before; "" for the first.
	From string `json:"from,omitempty"`
	// Generation names the generation that was made the current one.
	Generation string `json:"generation"`
	// OSVersion is the IMAGE_VERSION of the system that made it.
	OSVersion string `json:"osVersion"`
	// Source names the document.
	Source string `json:"source,omitempty"`
	// Outcome is what became of the change.
	Outcome Outcome `json:"outcome"`
	// Operator says that an operator asked for the way back.
	Operator bool `json:"operator,omitempty"`
	// Reason is set for every outcome but Applied.
	Reason string `json:"reason,omitempty"`
}

// IsTakenBack reports whether the node went back by itself.
func (r Record) IsTakenBack() bool { return r.Outcome == Reverted && r.Reason != RolledBack }

// Outcome is what became of a change.
type Outcome string

const (
	// Applied means that the generation has proven itself.
	Applied Outcome = "applied"
	// Failed means that the generation has not proven itself, and stays because
	// there is no earlier one.
	Failed Outcome = "failed"
	// Replaced means that the next change came before the verdict.
	Replaced Outcome = "replaced"
	// Reverted means that the node went back to this generation.
	Reverted Outcome = "reverted"
)

const (
	historyName = "history.jsonl"
	// historyKept is how many records stay at least: some tens of kilobytes.
	historyKept = 100
)

// History reads the changes of a node from its /var/lib/loam, oldest first. It
// skips a line that cannot be decoded, because a power cut may leave such a
// line.
func History(state fs.FS) ([]Record, error) {
	text, err := fs.ReadFile(state, historyName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the history: %w", err)
	}

	var records []Record
	for line := range bytes.Lines(text) {
		var r Record
		if json.Unmarshal(line, &r) == nil {
			records = append(records, r)
		}
	}

	return records, nil
}

// Add appends r to the history.
func (l Ledger) Add(r Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	if err := l.State.Append(historyName, line, 0o644); err != nil {
		return fmt.Errorf("write the history: %w", err)
	}

	return l.shorten()
}

// shorten drops the older half of the history when it holds twice historyKept
// records.
func (l Ledger) shorten() error {
	text, err := l.State.Root().ReadFile(historyName)
	if err != nil {
		return fmt.Errorf("read the history: %w", err)
	}

	lines := bytes.SplitAfter(text, []byte("\n"))
	if len(lines) <= 2*historyKept {
		return nil
	}

	if _, err := l.State.WriteFile(historyName, bytes.Join(lines[len(lines)-historyKept:], nil),
		0o644); err != nil {
		return fmt.Errorf("shorten the history: %w", err)
	}

	return nil
}

// proven is [Proven] of this ledger.
func (l Ledger) proven() (func(name string) bool, error) { return Proven(l.State.Root().FS()) }

// Proven returns a function that reports whether a generation of a node has
// proven itself, from its /var/lib/loam. Without any history, as after it was
// lost, all of them count as proven.
func Proven(state fs.FS) (func(name string) bool, error) {
	records, err := History(state)
	if err != nil {
		return nil, err
	}
	good := map[string]bool{}
	for _, r := range records {
		good[r.Generation] = r.Outcome == Applied || r.Outcome == Reverted
	}
	return func(name string) bool { return good[name] || len(records) == 0 }, nil
}
