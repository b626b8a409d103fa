package cluster

import (
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/loam-os/loam/agent/cluster/reach"
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
	return writeRecord(dir, "record of updates in place", recordName, r)
}

// removeRecord ends the record of updates in place.
func removeRecord(dir *durable.Dir) error {
	if err := dir.Remove(recordName); err != nil {
		return reach.Untried(fmt.Errorf("remove the record of updates in place: %w", err))
	}
	return nil
}

// writeRecord replaces the record name, which is called what. The API server has no
// part in its errors.
func writeRecord(dir *durable.Dir, what, name string, value any) error {
	err := dir.MkdirAll(path.Dir(name))
	if err == nil {
		err = dir.WriteJSON(name, value, 0o600)
	}
	if err != nil {
		return reach.Untried(fmt.Errorf("keep the %s: %w", what, err))
	}
	return nil
}
