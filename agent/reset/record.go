package reset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/durable"
)

// RecordName is the record of a reset, beneath the root directory. While it is there
// the agent reads no source and joins no cluster.
const RecordName = "var/lib/loam/reset.json"

// record is a reset that was asked for.
type record struct {
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

// readRecord reads the record; nil if there is none. Of one that is damaged, which
// is an error too, only that there was a reset is certain: nothing more is taken
// away for it, and only a person ends it.
func readRecord(node *durable.Dir) (*record, error) {
	text, err := node.Root().ReadFile(RecordName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := &record{}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return &record{Done: true, damaged: true}, fmt.Errorf("read /%s: %w", RecordName, err)
	}
	return r, nil
}

func (r record) write(node *durable.Dir) error {
	text, err := json.Marshal(r)
	if err == nil {
		_, err = node.WriteFile(RecordName, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("record the reset: %w", err)
	}
	return nil
}

// Observe notes machine.yaml, and reports whether the node is in a reset. One that
// is done is over with another machine.yaml than it had: then its record goes.
func (r *Reset) Observe(machineYAML []byte) (bool, error) {
	sum := sha256.Sum256(machineYAML)
	r.machine = hex.EncodeToString(sum[:])
	if !r.Over() {
		return r.record != nil, nil
	}
	if err := r.Forget(); err != nil {
		return true, err
	}
	r.record = nil
	return false, nil
}

// Over reports whether the reset has ended by itself.
func (r *Reset) Over() bool {
	return r.record != nil && r.record.Done && !r.record.damaged && r.machine != "" && r.machine != r.record.Machine
}

// Begin records that the node is to be reset.
func (r *Reset) Begin() error {
	record := record{At: r.Now().UTC().Truncate(time.Second), Machine: r.machine}
	// Best effort: a file that is damaged must not keep the node from its reset.
	carried, _ := cluster.CarriedTokens(r.Node.Root().FS())
	record.Tokens = r.Tokens.TokenFiles()
	for _, t := range carried {
		record.Tokens = append(record.Tokens, t.Path)
	}
	return record.write(r.Node)
}

// Forget removes the record: the node follows its source again.
func (r *Reset) Forget() error {
	if err := r.Node.Remove(RecordName); err != nil {
		return fmt.Errorf("end the reset: %w", err)
	}
	return nil
}
