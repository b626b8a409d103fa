package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/machine"
)

// resetName is the record of a reset, beneath the root directory. While it is there
// the agent reads no source and joins no cluster.
const resetName = "var/lib/loam/reset.json"

// resetRecord is a reset that was asked for.
type resetRecord struct {
	At time.Time `json:"at"`
	// Machine is the digest of the machine.yaml of then, "" without one: another
	// ends the reset.
	Machine string `json:"machine,omitempty"`
	// Tokens are files with tokens: what names them may be gone before they are.
	Tokens []string `json:"tokens,omitempty"`
	// Done says that neither configuration nor identity is left.
	Done bool `json:"done"`

	// damaged says that the rest of it is unknown.
	damaged bool
}

// readReset reads the record; nil if there is none. Of one that is damaged, which
// is an error too, only that there was a reset is certain: nothing more is taken
// away for it, and only a person ends it.
func readReset(node *durable.Dir) (*resetRecord, error) {
	text, err := node.Root().ReadFile(resetName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := &resetRecord{}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return &resetRecord{Done: true, damaged: true}, fmt.Errorf("read /%s: %w", resetName, err)
	}
	return r, nil
}

func (r resetRecord) write(node *durable.Dir) error {
	text, err := json.Marshal(r)
	if err == nil {
		_, err = node.WriteFile(resetName, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("record the reset: %w", err)
	}
	return nil
}

// meets notes machine.yaml, and reports whether the node is in a reset. One that is
// done is over with another machine.yaml than it had: then its record goes.
func (r *Reset) meets(text []byte, m machine.Machine) (bool, error) {
	sum := sha256.Sum256(text)
	r.machine = hex.EncodeToString(sum[:])
	r.source = m.Source
	if !r.over() {
		return r.record != nil, nil
	}
	if err := r.forget(); err != nil {
		return true, err
	}
	r.record = nil
	return false, nil
}

// over reports whether the reset has ended by itself.
func (r *Reset) over() bool {
	return r.record != nil && r.record.Done && !r.record.damaged && r.machine != "" && r.machine != r.record.Machine
}

// begin records that the node is to be reset.
func (r *Reset) begin() error {
	record := resetRecord{At: r.Now().UTC().Truncate(time.Second), Machine: r.machine}
	if c, _, ok, err := clusterOf(r.source, r.Node.Root()); err == nil && ok {
		r.config = c
	}
	// Best effort: a file that is damaged must not keep the node from its reset.
	carried, _ := cluster.CarriedTokens(r.Node.Root().FS())
	for _, t := range slices.Concat(r.config.Tokens, carried) {
		record.Tokens = append(record.Tokens, t.Path)
	}
	return record.write(r.Node)
}

// forget removes the record: the node follows its source again.
func (r *Reset) forget() error {
	if err := r.Node.Remove(resetName); err != nil {
		return fmt.Errorf("end the reset: %w", err)
	}
	return nil
}
