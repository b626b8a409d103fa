// Package records keeps small files on the state partition: what upgrades know
// from one boot to the next.
package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// Store keeps small files. When Write returns, the file survives a power cut,
// and so does all that was written to the disk before it.
type Store interface {
	// Read returns fs.ErrNotExist for a file that is not there.
	Read(name string) ([]byte, error)
	Write(name string, data []byte) error
	Remove(name string) error
}

// Load decodes a file. If the file is absent or not JSON of that type, *to is
// the zero value: no record is worth more than going on.
func Load[T any](s Store, name string, to *T) error {
	text, err := s.Read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", name, err)
	}

	if json.Unmarshal(text, to) != nil {
		*to = *new(T)
	}
	return nil
}

// Save encodes a value into a file.
func Save(s Store, name string, from any) error {
	text, err := json.MarshalIndent(from, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}

	if err := s.Write(name, append(text, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
