package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// ErrCorrupt means that a file is not the JSON of the value it is read into.
var ErrCorrupt = errors.New("corrupt")

// ReadJSON decodes the state file name of fsys into value, and reports whether
// the file exists. The error of a file that cannot be decoded is [ErrCorrupt],
// and value is then undefined.
func ReadJSON(fsys fs.FS, name string, value any) (bool, error) {
	text, err := fs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}

	if err := json.Unmarshal(text, value); err != nil {
		return true, fmt.Errorf("%s: %w: %w", name, ErrCorrupt, err)
	}
	return true, nil
}

// WriteJSON makes name a file with value as one line of JSON, as
// [Dir.WriteFile] does.
func (d *Dir) WriteJSON(name string, value any, mode fs.FileMode) error {
	text, err := encode(name, value)
	if err != nil {
		return err
	}
	_, err = d.WriteFile(name, text, mode)
	return err
}

// WriteVolatileJSON makes name a file with value as one line of JSON, as
// [Dir.WriteVolatile] does.
func (d *Dir) WriteVolatileJSON(name string, value any, mode fs.FileMode) error {
	text, err := encode(name, value)
	if err != nil {
		return err
	}
	return d.WriteVolatile(name, text, mode)
}

func encode(name string, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return append(text, '\n'), nil
}
