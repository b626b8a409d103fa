package vm

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// qmp speaks the QEMU Machine Protocol: a JSON object a line.
type qmp struct {
	mu  sync.Mutex
	enc *json.Encoder
	dec *json.Decoder
}

func newQMP(rw io.ReadWriter) (*qmp, error) {
	q := &qmp{enc: json.NewEncoder(rw), dec: json.NewDecoder(rw)}
	var greeting map[string]any
	if err := q.dec.Decode(&greeting); err != nil {
		return nil, fmt.Errorf("QMP greeting: %w", err)
	}
	return q, q.command("qmp_capabilities", nil)
}

// command runs one command and waits for its answer; events in between are
// skipped.
func (q *qmp) command(name string, args map[string]any) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	request := map[string]any{"execute": name}
	if args != nil {
		request["arguments"] = args
	}

	if err := q.enc.Encode(request); err != nil {
		return fmt.Errorf("QMP %s: %w", name, err)
	}

	for {
		var answer struct {
			Return json.RawMessage `json:"return"`
			Error  *struct{ Desc string }
		}
		if err := q.dec.Decode(&answer); err != nil {
			return fmt.Errorf("QMP %s: %w", name, err)
		}
		if answer.Error != nil {
			return fmt.Errorf("QMP %s: %s", name, answer.Error.Desc)
		}
		if answer.Return != nil {
			return nil
		}
	}
}
