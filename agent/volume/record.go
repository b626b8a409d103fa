package volume

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/loam-os/loam/agent/durable"
)

// RecordFile, beneath the root directory, has the Record. While it is there the
// kubelet starts only with its volume.
const RecordFile = "var/lib/loam/volume.json"

// LaterFile, beneath the root directory, says that the kubelet runs without its
// volume until the machine restarts.
const LaterFile = "run/loam/data-volume-later"

// Record is what a node remembers of its data volume: what was claimed last, by
// machine.yaml or by a size, and whether it has had one.
type Record struct {
	Claim Claim `json:"claim"`
	// FileSystem is what an empty disk gets: ext4 or xfs.
	FileSystem string `json:"fileSystem"`
	Made       bool   `json:"made,omitempty"`
}

// ReadRecord reads it; false if there is none. Of one that is damaged is left
// that the node has had a volume: so no other disk is formatted unless it is
// claimed by name.
func ReadRecord(root fs.FS) (Record, bool, error) {
	text, err := fs.ReadFile(root, RecordFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}

	if err != nil {
		return Record{}, false, fmt.Errorf("read what is known of the data volume: %w", err)
	}

	var r Record
	if json.Unmarshal(text, &r) != nil || r.FileSystem == "" {
		return Record{Made: true, FileSystem: "ext4"}, true, nil
	}

	return r, true, nil
}

// Write keeps the record.
func (r Record) Write(node *durable.Dir) error {
	text, err := json.Marshal(r)
	if err == nil {
		_, err = node.WriteFile(RecordFile, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep what is known of the data volume: %w", err)
	}
	return nil
}
