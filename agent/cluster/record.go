package cluster

import (
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/hint"
)

// recordName is the record of updates in place.
const recordName = "var/lib/loam/inplace.json"

// loadRecord returns the record of updates in place, false if absent.
func loadRecord(root *os.Root) (r inplace.Record, ok bool, err error) {
	ok, err = durable.ReadJSON(root.FS(), recordName, &r)
	switch {
	case errors.Is(err, durable.ErrCorrupt):
		err = hint.With(fmt.Errorf("/%s is damaged: %w", recordName, err),
			"remove it once the node runs its configuration")
	case err != nil:
		err = fmt.Errorf("read the record of updates in place: %w", err)
	}

	if err != nil {
		return inplace.Record{}, false, err
	}
	return r, ok, nil
}

// saveRecord replaces the record of updates in place.
func saveRecord(dir *durable.Dir, r inplace.Record) error {
	if err := dir.MkdirAll(path.Dir(recordName)); err != nil {
		return err
	}
	return dir.WriteJSON(recordName, r, 0o600)
}

// removeRecord ends the record of updates in place.
func removeRecord(dir *durable.Dir) error { return dir.Remove(recordName) }
