package live

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/ext4"
)

// stateField is the field of machine.yaml that claims the disk.
const stateField = "state.disk"

// stateDisk is a disk that may have the state of the node.
type stateDisk struct {
	volume.Disk

	// label and size describe the ext4 on the disk. corrupt means that a power
	// cut has corrupted its superblock, and that the copy can replace it.
	label   string
	size    int64
	corrupt bool

	// marked reports whether the disk has the mark that asks for a file system.
	marked bool
}

// state finds the disk that is claimed for the state.
func (n *node) state() (s boot.State, err error) {
	claim := n.machine.StateDisk().Claim()
	err = n.awaitDisk(claim, func() error {
		found, err := volume.Observe(disks())
		if err != nil {
			return err
		}

		var all []stateDisk
		for _, d := range found {
			if d.Device == n.source.Disk() {
				d.Uses = append(d.Uses, "the system comes from it")
			}
			all = append(all, examine(d))
		}

		s, err = decideState(all, claim)
		return err
	})

	return s, err
}

// examine reads what volume.ReadContent does not need.
func examine(d volume.Disk) stateDisk {
	device, err := volume.OpenToLook(d.Device, false)
	if err != nil {
		return stateDisk{Disk: d}
	}
	defer device.Close()
	return examined(device, d)
}

func examined(device io.ReaderAt, d volume.Disk) stateDisk {
	s := stateDisk{Disk: d}
	sb, err := ext4.ReadSuperblock(device)
	if err != nil && !errors.Is(err, ext4.ErrNotExt4) {
		sb, _, err = ext4.Repaired(device)
		if err == nil {
			s.corrupt = true
		}
	}

	if err == nil {
		s.label = sb.Label
		s.size = sb.Size()
	}

	start := make([]byte, len(ext4.FormatMark))
	_, err = device.ReadAt(start, 0)
	s.marked = err == nil && string(start) == ext4.FormatMark

	return s
}

// ofExt4 are the names of the evidence that a state leaves on its disk.
var ofExt4 = []string{volume.Unknown, "ext2", "ext3", "ext4"}

// unfinished reports whether a disk holds nothing but part of the file system
// for the state, after a power cut.
func (d stateDisk) unfinished() bool {
	foreign := func(e volume.Evidence) bool { return !slices.Contains(ofExt4, e.Name) }
	return d.marked && !slices.ContainsFunc(d.Content.Evidence, foreign)
}

// hasState reports whether a disk holds the state of a node, and nothing else has
// taken the disk since: another table, or the superblock of a RAID or of another
// file system, may leave that of ext4 where it was. All of them are in the first
// MiB, which in ext4 has no content of files.
func (d stateDisk) hasState() bool {
	other := func(e volume.Evidence) bool {
		return e.Offset < 1<<20 && !slices.Contains(ofExt4, e.Name)
	}
	return d.label == partitions.StateLabel && len(d.Parts) == 0 &&
		!slices.ContainsFunc(d.Content.Evidence, other)
}

// decideState returns the disk that has the state, or that will have it. A disk
// that has the state goes before every empty disk. A disk on which a power cut
// has left part of a file system for the state counts as empty.
func decideState(all []stateDisk, c volume.Claim) (boot.State, error) {
	var with []stateDisk
	for _, d := range all {
		if d.hasState() && len(d.Uses) == 0 && (!d.Removable || c.Names()) {
			with = append(with, d)
		}
	}

	claimed := slices.DeleteFunc(slices.Clone(with), func(d stateDisk) bool {
		return !c.Identity(d.Disk)
	})

	switch {
	case len(claimed) == 1:
		d := claimed[0]
		const slack = 1 << 20 // ext4 leaves a tail too short for a block group
		return boot.State{
			Device: d.Device,
			Size:   d.Size,
			Repair: d.corrupt,
			Grow:   d.Size-d.size >= slack,
		}, nil
	case len(claimed) > 1:
		return boot.State{}, hint.With(
			fmt.Errorf(
				"no disk for %s: %s and %s have a node's state already",
				stateField, claimed[0].Device, claimed[1].Device,
			),
			"claim one by its serial number",
		)
	case len(with) > 0:
		return boot.State{}, hint.With(
			fmt.Errorf(
				"no disk for %s: %s has a node's state already, and is not the one that is "+
					"claimed (%s)",
				stateField, with[0].Device, c,
			),
			"claim one by its serial number",
		)
	}

	var open []volume.Disk
	for _, d := range all {
		if d.unfinished() {
			d.Content = volume.Content{}
			d.Parts = nil
		}
		open = append(open, d.Disk)
	}

	choice, err := volume.Decide(volume.Facts{Disks: open, Field: stateField}, c)
	if err != nil {
		return boot.State{}, err
	}

	return boot.State{
		Device: choice.Device,
		Size:   choice.Size,
		Format: true,
		Grow:   true,
	}, nil
}
