package partitions

import (
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"

	"github.com/loam-os/loam/partitions/gpt"
)

// A USB installer has one partition, of a type that every PC shows, with a FAT
// file system. It holds a loader, a UKI, the packed disk image, and the
// machine.yaml that the operator edits.
const (
	InstallerFile  = "loam/disk.raw.zst"
	InstallerLabel = "loam-installer"
	// MachineFile is where a node, and an installer, finds its machine.yaml on
	// a FAT partition.
	MachineFile = "loam/machine.yaml"
)

// BasicData is the type of partitions for data on Windows, which shows no other
// on a USB drive.
var BasicData = uuid.MustParse("ebd0a0a2-b9e5-4433-87c0-68b6b72699c7")

// HasLoader reports whether firmware starts programs from a partition: an ESP,
// or the ESP of a USB installer.
func HasLoader(p gpt.Partition) bool { return RoleOf(p.Type) == ESP || p.Label == InstallerLabel }

// InstallerUUID is the UUID of the partition with the packed disk image of that
// SHA-256, in hex: the first half of that.
func InstallerUUID(sum string) (uuid.UUID, error) {
	b, err := hex.DecodeString(sum)
	if err != nil || len(b) != 32 {
		return uuid.Nil, fmt.Errorf("SHA-256 %.80q: not 64 hexadecimal digits", sum)
	}
	return uuid.UUID(b[:16]), nil
}
