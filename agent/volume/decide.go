package volume

import (
	"slices"
	"strings"
)

// Action is what to do with the chosen device.
type Action string

const (
	// ToUse means that the device has the data volume.
	ToUse Action = "use"
	// ToFormat means that the disk is empty and claimed.
	ToFormat Action = "format"
	// ToFinish means that a power cut has left a volume unfinished: format it
	// again.
	ToFinish Action = "finish"
)

// Facts are all that Decide knows about the machine.
type Facts struct {
	Disks []Disk

	// Made means that the node has had a data volume before.
	Made bool

	// Container is the UUID of the encrypted data volume of the node, "" if it is
	// not encrypted. Then no other volume is meant, whatever its label.
	Container string

	// Field is the field of machine.yaml with the claim, such as
	// "install.disk"; "" is dataVolume. A volume of another field is content like
	// any other.
	Field string

	// Rivals are the claims of the other volumes of the machine.
	Rivals []Rival
}

// Choice is the chosen data volume.
type Choice struct {
	Action Action

	// Device is the node of the disk, or of the partition with the volume.
	Device string

	// FileSystem is the type of a volume to use, "" for the other actions. Grow
	// means that the device is larger than the file system.
	FileSystem string
	Grow       bool

	// Container is the UUID of an encrypted volume. Its FileSystem is known once
	// it is open.
	Container string

	// Size is the size of the disk in bytes.
	Size int64
}

// Decide returns the disk that is the data volume or becomes it. The error
// wraps a *Refusal.
//
//   - A volume that was made before is used, even if another disk is empty,
//     and whatever its size is now. A claim by serial, path or model that means
//     another disk is refused, because the kubelet's data is on the old one. If
//     there are several volumes, the claim must mean one of them.
//   - The same holds for a disk that a power cut has left unfinished.
//   - Disks in use do not count. Exactly one of the others must match and be
//     empty. With OnlyEmpty, several may match, but only one may be empty. If a
//     disk that matches cannot be read, none is formatted: that disk may be the
//     volume.
//   - If the node has had a volume and the volume is absent, its disk is late
//     or broken. Then another disk is formatted only if the claim names it by
//     serial or path, and never for etcd, which would begin again without its
//     data. A volume is still used if nothing is claimed any more.
//   - A disk that appears twice (multipath without its mapping) is never
//     formatted, and neither is a disk that another claim of the machine matches:
//     an operator has to say which volume it is for.
func Decide(f Facts, c Claim) (Choice, error) {
	f.Disks = slices.SortedFunc(slices.Values(f.Disks), func(a, b Disk) int {
		return strings.Compare(a.Device, b.Device)
	})
	choice, why := choose(f, c)
	if why != "" {
		return Choice{}, newRefusal(why, f, c).withHints()
	}
	return choice, nil
}

// choose implements Decide; why is "" if there is a choice.
func choose(f Facts, c Claim) (choice Choice, why string) {
	if c.IsZero() && !f.Made {
		return Choice{}, "no disk is claimed"
	}
	if p := f.purpose(); p != nil {
		found := volumes(p, f.Disks, c.Names(), f.Container)
		if len(found) > 0 {
			return pickVolume(p, found, c)
		}
	}

	candidates := filter(f.Disks, c)
	contested := func(d Disk) bool { return f.rival(d) != "" }
	free := slices.DeleteFunc(slices.Clone(candidates), func(d Disk) bool {
		return obstacle(d, f.Disks) != ""
	})

	unreadable := func(d Disk) bool { return d.Content.has(Unreadable) }
	switch {
	case f.Made && (!c.Names() || !f.purpose().Replaceable):
		return Choice{}, "the " + f.purpose().Name + " that the node had is not there"
	case len(candidates) == 0:
		return Choice{}, "no disk that is free matches"
	case len(free) == 0:
		return Choice{}, "no disk that matches is empty"
	case len(free) > 1:
		return Choice{}, "more than one empty disk matches"
	case len(candidates) > 1 && !c.OnlyEmpty:
		return Choice{}, "more than one disk matches"
	case slices.ContainsFunc(candidates, unreadable):
		return Choice{}, "a disk that matches cannot be read, and may be the volume"
	case contested(free[0]):
		return Choice{}, "the empty disk that matches is claimed by " + f.rival(free[0]) + ", too"
	}

	return Choice{Action: ToFormat, Device: free[0].Device, Size: free[0].Size}, ""
}

// volume is a device that has a volume, complete or unfinished.
type volume struct {
	disk   Disk
	choice Choice
}

// volumes returns the volumes of a purpose on all disks. Only if the claim named
// a device, those on removable disks are among them, and unfinished ones on disks
// that another machine serves. With a container, it returns no other complete volume.
// It returns unfinished volumes only if there are no complete ones.
func volumes(purpose *Purpose, disks []Disk, named bool, container string) []volume {
	var complete, unfinished []volume
	for _, d := range disks {
		if d.Removable && !named {
			continue
		}

		choice := Choice{Device: d.Device, Size: d.Size}
		switch c := d.Content; {
		case c.Volume != purpose.Label:
		case container != "" && c.Container == container:
			choice.Action = ToUse
			choice.Container = container
			complete = append(complete, volume{d, choice})
		case c.FileSystem != "" && container == "":
			choice.Action = ToUse
			choice.FileSystem = c.FileSystem
			choice.Grow = grows(c, d.Size)
			complete = append(complete, volume{d, choice})
		case c.Unfinished && (d.Network == "" || named):
			choice.Action = ToFinish
			unfinished = append(unfinished, volume{d, choice})
		}

		for _, p := range d.Parts {
			if p.Content.FileSystem == "" || p.Content.Volume != purpose.Label || container != "" {
				continue
			}
			complete = append(complete, volume{d, Choice{
				Action:     ToUse,
				Device:     p.Device,
				FileSystem: p.Content.FileSystem,
				Grow:       grows(p.Content, p.Size),
				Size:       d.Size,
			}})
		}
	}

	if len(complete) > 0 {
		return complete
	}

	return unfinished
}

// grows reports whether there is room behind a file system. A rest that is too
// short for one of its blocks or groups does not count.
func grows(c Content, size int64) bool { return size-c.Used >= mib }

// pickVolume returns the volume that the claim means.
func pickVolume(p *Purpose, found []volume, c Claim) (choice Choice, why string) {
	meant := slices.DeleteFunc(slices.Clone(found), func(v volume) bool {
		return !c.Identity(v.disk)
	})

	switch {
	case len(meant) == 0:
		return Choice{}, "there is " + p.a() + " already, on a disk that is not claimed"
	case len(meant) > 1:
		return Choice{}, "there is more than one " + p.Name
	}

	v := meant[0]
	if v.choice.Action == ToFinish && (len(v.disk.Uses) > 0 || v.disk.ReadOnly) {
		return Choice{}, "an unfinished " + p.Name + " is not free"
	}

	return v.choice, ""
}

// filter returns the disks that are not in use and that the claim can mean.
// Disks of exactly the claimed size go before disks of about that size.
func filter(disks []Disk, c Claim) []Disk {
	out := slices.DeleteFunc(slices.Clone(disks), func(d Disk) bool {
		return len(d.Uses) > 0 || !c.Matches(d)
	})
	if exact := func(d Disk) bool { return d.Size == c.About }; slices.ContainsFunc(out, exact) {
		out = slices.DeleteFunc(out, func(d Disk) bool { return !exact(d) })
	}
	return out
}

// obstacle says why the disk cannot be formatted, whatever the claim; "" if it
// can.
func obstacle(d Disk, all []Disk) string {
	// Cheap drives of one model have one WWID, but serial numbers of their own.
	twin := func(o Disk) bool {
		return o.Device != d.Device && o.WWID != "" && o.WWID == d.WWID &&
			(o.Serial == d.Serial || o.Serial == "" || d.Serial == "")
	}
	switch i := slices.IndexFunc(all, twin); {
	case len(d.Uses) > 0:
		return strings.Join(d.Uses, ", ")
	case i >= 0:
		return "the same disk as " + all[i].Device
	case d.ReadOnly:
		return "read-only"
	case len(d.Content.Evidence) > 0:
		return d.Summary()
	case len(d.Parts) > 0:
		return "has partitions"
	}
	return ""
}
