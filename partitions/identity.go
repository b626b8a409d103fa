package partitions

import (
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"

	"github.com/loam-os/loam/partitions/gpt"
)

// Identity are the UUIDs that tell an installation from every other one of the
// same system. The UUIDs of an image follow from its root hash, which is public
// ([Place]). A disk gets its own when the image is written to it, or at its
// first boot.
type Identity struct {
	Disk  uuid.UUID `json:"disk"`
	ESP   uuid.UUID `json:"esp"`
	State uuid.UUID `json:"state"`
}

// NewIdentity returns UUIDs of random bits.
func NewIdentity(random io.Reader) (id Identity, err error) {
	for _, u := range []*uuid.UUID{&id.Disk, &id.ESP, &id.State} {
		*u, err = uuid.NewRandomFromReader(random)
		if err != nil {
			return Identity{}, fmt.Errorf("identity of a disk: %w", err)
		}
	}
	return id, nil
}

// Give returns the table with the identity. A table without a state partition
// is not of an installation and stays as it is.
func (id Identity) Give(t gpt.Table) gpt.Table {
	of := func(role Role) int {
		return slices.IndexFunc(t.Partitions, func(p gpt.Partition) bool {
			return RoleOf(p.Type) == role
		})
	}

	state := of(State)
	if state < 0 {
		return t
	}

	t.DiskGUID = id.Disk
	t.Partitions = slices.Clone(t.Partitions)
	t.Partitions[state].UUID = id.State
	if esp := of(ESP); esp >= 0 {
		t.Partitions[esp].UUID = id.ESP
	}

	return t
}

// Public reports whether the UUID is no secret: it follows from a root
// hash.
func Public(id uuid.UUID) bool { return id.Version() == derived }

// ImageESP is the UUID of the ESP of an image with that root hash.
func ImageESP(rootHash [32]byte) uuid.UUID { return derive(rootHash, espFile) }

// espFile is the definition of the ESP.
const espFile = "10-esp.conf"
