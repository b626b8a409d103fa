package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/loam-os/loam/agent/generation"
)

// Record is one line of the node's history.
type Record struct {
	Generation string    `json:"generation"`
	Digest     string    `json:"digest"`
	OSVersion  string    `json:"osVersion"`
	Source     string    `json:"source"`
	At         time.Time `json:"at"`
	// Outcome is "applied", or what went wrong.
	Outcome string `json:"outcome"`
}

const (
	historyName = "history.json"
	// historyKept is how many records stay: a few kilobytes.
	historyKept = 50
)

// History is what was applied on this node, oldest first. A file that cannot
// be decoded is an empty history: the next record starts it anew.
func (e *Executor) History() ([]Record, error) {
	text, err := e.State.Root().ReadFile(historyName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	var records []Record
	if err := json.Unmarshal(text, &records); err != nil {
		return nil, nil
	}
	return records, nil
}

func (e *Executor) record(m generation.Manifest, failed error) error {
	records, err := e.History()
	if err != nil {
		return err
	}
	outcome := "applied"
	if failed != nil {
		outcome = failed.Error()
	}
	records = append(records, Record{
		Generation: m.Name(), Digest: m.Digest, OSVersion: m.OSVersion, Source: m.Source,
		At: e.Now().UTC().Truncate(time.Second), Outcome: outcome,
	})
	text, err := json.MarshalIndent(records[max(0, len(records)-historyKept):], "", " ")
	if err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	if _, err := e.State.WriteFile(historyName, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	return nil
}
