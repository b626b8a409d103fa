package block

import (
	"io"

	"github.com/loam-os/loam/partitions/device"
)

// Handle is a disk that is open exclusively, to be written. Seek to the end
// returns its size. *os.File implements it.
type Handle interface {
	device.Device
	io.Seeker
	io.Closer
}
