package reset

import (
	"fmt"
	"time"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/durable"
)

// RecordName is the record of a reset, beneath the root directory. While it
// exists, the agent reads no source and joins no cluster.
const RecordName = boot.ResetName

// record is a reset that an operator requested.
type record struct {
	At time.Time `json:"at"`
	// Machine is the digest of machine.yaml at the request, empty without one.
	// A different digest ends the reset.
	Machine string `json:"machine,omitempty"`
	// Tokens are files with tokens. They are kept here because the files that
	// name them may go first.
	Tokens []string `json:"tokens,omitempty"`
	// Done says that configuration and identity are gone.
	Done bool `json:"done"`

	// damaged says that the file could not be read: the fields above are not
	// what the operator requested.
	damaged bool
}

// readRecord reads the record; nil if it is absent. Of an unreadable record,
// which is an error too, only the reset itself is certain: it removes nothing
// more, and only an operator ends it.
func readRecord(node *durable.Dir) (*record, error) {
	r := &record{}
	found, err := durable.ReadJSON(node.Root().FS(), RecordName, r)
	if err != nil {
		return &record{Done: true, damaged: true}, fmt.Errorf("read /%s: %w", RecordName, err)
	}
	if !found {
		return nil, nil
	}
	return r, nil
}

func (r record) write(node *durable.Dir) error {
	if err := node.WriteJSON(RecordName, r, 0o600); err != nil {
		return fmt.Errorf("record the reset: %w", err)
	}
	return nil
}

// Observe takes in the SHA-256 of machine.yaml, and reports whether the node is in
// a reset. It removes the record of a completed reset if machine.yaml has
// changed since. It must be called before any other method but Active and
// Status, and not beside one.
func (r *Reset) Observe(machineYAML string) (bool, error) {
	r.machine = machineYAML
	if !r.Superseded() {
		return r.record != nil, nil
	}

	if err := r.Forget(); err != nil {
		return true, err
	}
	r.record = nil
	return false, nil
}

// Superseded reports whether the reset is done and machine.yaml is not the one
// that the node was reset with.
func (r *Reset) Superseded() bool {
	if r.record == nil || !r.record.Done || r.record.damaged {
		return false
	}
	return r.machine != "" && r.machine != r.record.Machine
}

// Begin records the request to reset the node. The caller ends the agent, and
// the next agent calls Run.
func (r *Reset) Begin() error {
	files := r.env.Tokens.TokenFiles()

	// Best effort: a damaged file must not keep the node from its reset.
	carried, _ := cluster.CarriedTokens(r.env.Node.Root().FS())
	for _, token := range carried {
		files = append(files, token.Path)
	}

	return record{
		At:      r.env.Now().UTC().Truncate(time.Second),
		Machine: r.machine,
		Tokens:  files,
	}.write(r.env.Node)
}

// Forget removes the record: the next run of the agent follows its source
// again.
func (r *Reset) Forget() error {
	if err := r.env.Node.Remove(RecordName); err != nil {
		return fmt.Errorf("end the reset: %w", err)
	}
	return nil
}
