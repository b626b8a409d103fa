package volume

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/loam-os/loam/agent/durable"
)

// RecordFile, beneath the root directory, stores the Record. While it exists
// the kubelet starts only with its volume.
const RecordFile = "var/lib/loam/volume.json"

// DeferFile, beneath the root directory, lets the kubelet run without its
// volume until the machine restarts.
const DeferFile = "run/loam/data-volume-later"

// Record is what a node stores about its data volume: the last claim, from
// machine.yaml or a size, and whether it has had a volume.
type Record struct {
	Claim Claim `json:"claim"`
	// FileSystem is the file system for an empty disk: ext4 or xfs.
	FileSystem string `json:"fileSystem"`
	Made       bool   `json:"made,omitempty"`

	// Encryption opens the volume; the zero value if it is not encrypted.
	Encryption Encryption `json:"encryption,omitzero"`
}

// Encryption is the container of an encrypted volume. It is stored on the state
// partition, which is encrypted itself.
type Encryption struct {
	UUID string `json:"uuid"`
	// Key is the passphrase of a key slot, in hex.
	Key string `json:"key"`
}

// ReadRecord reads the record; false if it is absent. A corrupt record counts
// as a record of a volume, so that no other disk is formatted unless it is
// claimed by name.
func ReadRecord(root fs.FS) (Record, bool, error) {
	var r Record
	found, err := durable.ReadJSON(root, RecordFile, &r)
	if errors.Is(err, durable.ErrCorrupt) || found && err == nil && r.FileSystem == "" {
		return Record{Made: true, FileSystem: "ext4"}, true, nil
	}

	if err != nil {
		return Record{}, false, fmt.Errorf("read the record of the data volume: %w", err)
	}
	return r, found, nil
}

// Write stores the record.
func (r Record) Write(node *durable.Dir) error {
	if err := node.WriteJSON(RecordFile, r, 0o600); err != nil {
		return fmt.Errorf("store the record of the data volume: %w", err)
	}
	return nil
}
