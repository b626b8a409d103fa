package install

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
)

// Field is the field of machine.yaml that claims the disk.
const Field = "install.disk"

// Facts are all that Decide knows about the machine.
type Facts struct {
	// Arch is the machine's architecture as Go names it.
	Arch  string
	Disks []Candidate
}

// Candidate is a disk of the machine, which may get the system.
type Candidate struct {
	volume.Disk
	// Table is its partition table, nil if it has none.
	Table *gpt.Table
	// Marked reports whether it begins with flash.Mark.
	Marked bool
}

// Claim is the part of machine.yaml that chooses the disk.
type Claim struct {
	Claim volume.Claim
	// Wipe is the serial number of a disk whose content may be overwritten; ""
	// if none.
	Wipe string
}

// Choice is the disk for the system. Installed means that it has a system
// already, and must not be written to.
type Choice struct {
	Disk      Candidate
	Installed bool
}

// Decide returns the disk that has the system or gets it.
//
//   - A disk that has a system goes before every empty disk, whatever its size,
//     and is left as it is. If it is not claimed, no other disk gets a system:
//     two disks from one image are clones, and the firmware would choose
//     between them.
//   - The same holds for a disk that a power cut has left unfinished, if the claim
//     can mean it. It is written again.
//   - Otherwise volume.Decide chooses. A disk that may be wiped counts as
//     empty.
//
// The error is a *volume.Refusal, or describes the problem of the only disk
// that could be chosen.
func Decide(f Facts, w Claim) (Choice, error) {
	if d, found, err := f.installed(w); found || err != nil {
		return Choice{Disk: d, Installed: true}, err
	}

	disks := f.Disks
	begun := slices.DeleteFunc(slices.Clone(disks), func(d Candidate) bool {
		return !d.unfinished(f.Arch) || !w.Claim.Matches(d.Disk)
	})
	if len(begun) > 0 {
		disks = begun
	}

	var open []volume.Disk
	for _, d := range disks {
		if d.unfinished(f.Arch) || (d.Serial != "" && d.Serial == w.Wipe) {
			d.Disk = emptied(d.Disk)
		}
		open = append(open, d.Disk)
	}

	choice, err := volume.Decide(volume.Facts{Disks: open, Field: Field}, w.Claim)
	if err != nil {
		return Choice{}, f.withWipeHint(err, w)
	}

	at := slices.IndexFunc(f.Disks, func(d Candidate) bool { return d.Device == choice.Device })
	return Choice{Disk: f.Disks[at]}, nil
}

// installed returns the claimed disk that has a system.
func (f Facts) installed(w Claim) (Candidate, bool, error) {
	var claimed, others []Candidate
	for _, d := range f.Disks {
		switch {
		case !d.HasSystem(f.Arch) || (d.Removable && !w.Claim.Names()):
		case w.Claim.Identity(d.Disk):
			claimed = append(claimed, d)
		case !d.Removable:
			others = append(others, d)
		}
	}

	switch {
	case len(claimed) == 1:
		return claimed[0], true, nil
	case len(claimed) > 1:
		return Candidate{}, false, hint.With(
			fmt.Errorf(
				"no disk for %s: %s and %s have a system already",
				Field, claimed[0].Device, claimed[1].Device,
			),
			"claim one of them by its serial number",
		)
	case len(others) > 0:
		return Candidate{}, false, hint.With(
			fmt.Errorf(
				"no disk for %s: %s has a system already, and is not claimed (%s)",
				Field, others[0].Device, w.Claim,
			),
			"claim it, serial %q, or take it out: of two disks with a system, the "+
				"firmware may start either", others[0].Serial,
		)
	}

	return Candidate{}, false, nil
}

// HasSystem reports whether a disk has a system of Loam, completely written. What has
// taken the disk since may have left the copy of its table at the end.
func (d Candidate) HasSystem(arch string) bool {
	if d.Table == nil || d.Marked || d.taken() {
		return false
	}

	slots, err := partitions.Slots(*d.Table, arch)
	if err != nil {
		return false
	}

	state := func(p gpt.Partition) bool {
		return p.Type == partitions.TypeUUID(partitions.State, arch)
	}

	_, a := slots[0].Holds(*d.Table, arch)
	_, b := slots[1].Holds(*d.Table, arch)
	return (a || b) && slices.ContainsFunc(d.Table.Partitions, state)
}

// unfinished reports whether a disk holds nothing but part of an image, after a
// power cut. The mark alone does not prove it: another system may have used the
// disk since, and left the mark there. A file system or container on the whole
// disk that leaves the first sector alone has a signature before the first
// partition or at the end of the disk. An image has only its partition tables
// there. Tools that make another table keep the mark, too, as it is where the
// boot code would be.
func (d Candidate) unfinished(arch string) bool {
	if d.Table != nil {
		if _, err := partitions.Slots(*d.Table, arch); err != nil {
			return false
		}
	}

	unreadable := func(e volume.Evidence) bool { return e.Name == volume.Unreadable }
	return d.Marked && !d.taken() && !slices.ContainsFunc(d.Content.Evidence, unreadable)
}

// taken reports whether something other than a partition table is where an image has
// only that: before the first partition, or at the end of the disk.
func (d Candidate) taken() bool {
	return slices.ContainsFunc(d.Content.Evidence, func(e volume.Evidence) bool {
		edge := e.Offset < gpt.Alignment || e.Offset >= d.Size-gpt.Alignment
		return edge && !slices.Contains([]string{
			volume.Unknown, volume.Unreadable, "gpt", "PMBR",
		}, e.Name)
	})
}

// emptied returns the disk without its content. Evidence that a part cannot be
// read stays.
func emptied(d volume.Disk) volume.Disk {
	d.Parts = nil
	d.Content.FileSystem = ""
	d.Content.Unfinished = false
	d.Content.Evidence = slices.DeleteFunc(slices.Clone(d.Content.Evidence),
		func(e volume.Evidence) bool { return e.Name != volume.Unreadable })
	return d
}

// withWipeHint adds a hint that names the disk which would be chosen if its
// content could be overwritten. Without such a disk it adds nothing.
func (f Facts) withWipeHint(err error, w Claim) error {
	for _, d := range f.Disks {
		forced := Claim{volume.Claim{Serial: d.Serial}, d.Serial}
		if w.Wipe != "" || d.Serial == "" || len(d.Content.Evidence) == 0 ||
			!w.Claim.Matches(d.Disk) {
			continue
		}
		if c, no := Decide(f, forced); no == nil && c.Disk.Device == d.Device {
			return hint.With(err,
				"to overwrite everything on %s: install: {disk: {serial: %q}, wipe: %[2]q}",
				d.Device, d.Serial)
		}
	}
	return err
}

// Fits returns an error if an image with that table cannot go to a disk.
func Fits(d volume.Disk, image gpt.Table) error {
	switch {
	case d.SectorSize != image.SectorSize:
		return hint.With(
			fault.With(fmt.Errorf(
				"%s: it has sectors of %d bytes, the image is for %d",
				d.Device, d.SectorSize, image.SectorSize,
			), fault.DiskNotFit),
			"loamctl build --sector-size %d", d.SectorSize,
		)
	case d.Size < image.DiskSize:
		return fault.With(fmt.Errorf("%s: it has %d MiB, the image needs %d MiB",
			d.Device, d.Size>>20, image.DiskSize>>20), fault.DiskNotFit)
	}
	return nil
}

// String describes the choice in a line, for the console.
func (d Candidate) String() string {
	out := []string{d.Device, fmt.Sprintf("%d MiB", d.Size>>20)}
	for _, f := range []struct{ name, value string }{{"", d.Model}, {"serial ", d.Serial}} {
		if f.value != "" {
			out = append(out, f.name+f.value)
		}
	}
	return strings.Join(out, ", ")
}
