package volume

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/loam-os/loam/agent/durable"
)

// RecordFile is Data.RecordFile.
const RecordFile = "var/lib/loam/volume.json"

// DeferFile is Data.DeferFile.
const DeferFile = "run/loam/data-volume-later"

// Record is what a node stores about a volume: the last claim, from
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
func (p *Purpose) ReadRecord(root fs.FS) (Record, bool, error) {
	var r Record
	found, err := durable.ReadJSON(root, p.RecordFile, &r)
	if errors.Is(err, durable.ErrCorrupt) || (found && err == nil && r.FileSystem == "") {
		return Record{Made: true, FileSystem: "ext4"}, true, nil
	}

	if err != nil {
		return Record{}, false, fmt.Errorf("read the record of the %s: %w", p.Name, err)
	}
	return r, found, nil
}

// WriteRecord stores the record.
func (p *Purpose) WriteRecord(node *durable.Dir, r Record) error {
	if err := node.WriteJSON(p.RecordFile, r, 0o600); err != nil {
		return fmt.Errorf("store the record of the %s: %w", p.Name, err)
	}
	return nil
}
