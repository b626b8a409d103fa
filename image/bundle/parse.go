package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Parse reads an index. What it returns is valid: every chunk of the parts is
// there, and lies in the pack. Fields of later releases are left out: else no
// node could upgrade to the first of these. What older nodes must not ignore
// has another Format.
func Parse(text []byte) (Index, error) {
	if len(text) > MaxIndex {
		return Index{}, fmt.Errorf("index: %d bytes, at most %d", len(text), MaxIndex)
	}

	dec := json.NewDecoder(bytes.NewReader(text))
	var ix Index
	if err := dec.Decode(&ix); err != nil {
		return Index{}, fmt.Errorf("index: %w", err)
	}

	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Index{}, errors.New("index: more after its end")
	}

	return ix, ix.Validate()
}

// Encode writes the index, which must be valid, as JSON without spaces and with
// a final newline.
func (ix Index) Encode() ([]byte, error) {
	if err := ix.Validate(); err != nil {
		return nil, err
	}

	text, err := json.Marshal(ix)
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}

	text = append(text, '\n')
	if len(text) > MaxIndex {
		return nil, fmt.Errorf("index: %d bytes, at most %d", len(text), MaxIndex)
	}

	return text, nil
}
