package boot

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions"
)

// ErrOtherDisk says that the machine was started from a disk that has not been
// seen yet: more may appear.
var ErrOtherDisk = errors.New("the boot loader came from another disk")

// choose returns the disk that the machine was started from. The root hash is
// public, so any disk may have a copy of the system, beside a state that is not
// of this node. The name of a disk says nothing.
//
//   - The disk that the boot loader came from has the partition that the loader
//     names. The firmware's boot option names it where the loader does not.
//   - If more than one disk has that partition, or nothing names one, the way
//     to the disk in the firmware's boot option decides.
//   - If several disks are left, none is taken.
//
// unsure means that the disk may be a copy and the right one still to appear:
// the partition has the UUID of the published image, and its disk is not where
// the firmware's boot option leads; or nothing says which disk it is, and it
// can be unplugged.
func choose(found []candidate, f Facts) (chosen candidate, unsure bool, err error) {
	loader := f.LoaderPartition
	if loader == uuid.Nil {
		loader = f.BootOption.Partition
	}

	own := slices.Clone(found)
	if loader != uuid.Nil {
		own = slices.DeleteFunc(own, func(c candidate) bool {
			return byUUID(c.disk.Table, loader) == 0
		})
		if len(own) == 0 {
			err := fmt.Errorf("%w, with partition %s: the system on %s is a copy",
				ErrOtherDisk, loader, names(found))
			return candidate{}, false, err
		}
	}

	there := slices.DeleteFunc(slices.Clone(own), func(c candidate) bool {
		return !f.BootOption.LeadsTo(c.disk.Hardware)
	})

	switch {
	case len(there) == 1:
		return there[0], false, nil
	case len(own) > 1:
		return candidate{}, false, hint.With(
			fmt.Errorf(
				"%s carry the same system, and neither the boot loader nor the firmware says "+
					"which of them was started",
				names(own),
			),
			"take out the disk that is a copy",
		)
	case loader == uuid.Nil:
		return own[0], own[0].disk.Removable, nil
	}

	return own[0], partitions.Public(loader), nil
}

// names lists the disks of candidates.
func names(found []candidate) string {
	var devices []string
	for _, c := range found {
		devices = append(devices, c.disk.Device)
	}
	slices.SortFunc(devices, cmp.Compare)
	return strings.Join(devices, " and ")
}

// others lists the disks of the candidates that were not chosen.
func others(found []candidate, chosen candidate) string {
	return names(slices.DeleteFunc(slices.Clone(found), func(c candidate) bool {
		return c.disk.Device == chosen.disk.Device
	}))
}
