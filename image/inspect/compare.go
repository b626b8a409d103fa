package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/manifest"
)

// Difference is a difference between two images.
type Difference struct {
	// What is what differs.
	What string `json:"what"`
	// A is how the first image has it, "" if only the other does.
	A string `json:"a"`
	// B is how the second image has it, "" if only the other does.
	B string `json:"b"`
}

// Comparison is how one system differs from another.
type Comparison struct {
	System   []Difference `json:"system"`
	Packages []Difference `json:"packages"`
	// Layout is of the disk: an upgrade does not change it.
	Layout []Difference `json:"layout"`
	// Restart says that a node that runs one has to restart to run the other.
	Restart bool `json:"restart"`
}

// Compare compares the systems that two images start.
func Compare(a, b Image) (Comparison, error) {
	for _, im := range []Image{a, b} {
		if len(im.UKIs) == 0 {
			return Comparison{}, hint.With(
				fault.With(fmt.Errorf("%s: no system on it", im.File), fault.NotAnImage),
				"`loamctl inspect %s` shows what is on it", im.File)
		}
	}

	from := a.UKIs[0]
	to := b.UKIs[0]
	var c Comparison
	c.System = changed([]Difference{
		{"image", from.ImageID, to.ImageID}, {"version", from.Version, to.Version},
		{"kernel", from.Kernel, to.Kernel},
		{"root hash", from.RootHash, to.RootHash},
		{"command line", rest(from.Cmdline), rest(to.Cmdline)},
		{"signed by", strings.Join(from.Signers, ", "), strings.Join(to.Signers, ", ")},
		{"PCR 11 by", strings.Join(from.PCRKeys, ", "), strings.Join(to.PCRKeys, ", ")},
	})

	c.System = append(
		c.System,
		diff(told(from.Sections), told(to.Sections), func(s Section) (string, string) {
			return "section " + s.Name, fmt.Sprintf("%d bytes, %.12s", s.Size, s.SHA256)
		})...,
	)

	c.Restart = len(c.System) > 0
	c.Packages = diff(from.Packages, to.Packages, func(p manifest.Package) (string, string) {
		return strings.TrimSuffix(p.Name+" "+p.Arch, " "), p.Version
	})

	if a.Disk == nil || b.Disk == nil {
		return c, nil
	}

	if a.Disk.Loader != b.Disk.Loader {
		c.System = append(c.System, Difference{"systemd-boot", a.Disk.Loader, b.Disk.Loader})
	}

	c.Layout = append(
		changed([]Difference{
			{"sectors of", fmt.Sprint(a.Disk.SectorSize), fmt.Sprint(b.Disk.SectorSize)},
		}),
		diff(a.Disk.Partitions, b.Disk.Partitions, func(p Partition) (string, string) {
			return fmt.Sprintf("partition %d", p.Index), fmt.Sprintf("%s, %d MiB at %d MiB",
				cmp.Or(string(p.Role), "other"), p.Size>>20, p.Start>>20)
		})...,
	)

	return c, nil
}

// told returns the sections without those whose content is compared.
func told(all []Section) []Section {
	return slices.DeleteFunc(slices.Clone(all), func(s Section) bool {
		return s.Name == ".cmdline" || s.Name == ".uname" || s.Name == uki.SBOM
	})
}

// rest is a command line without the root hash, which differs anyway.
func rest(cmdline string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(cmdline), func(word string) bool {
		return strings.HasPrefix(word, "roothash=")
	}), " ")
}

func changed(all []Difference) []Difference {
	return slices.DeleteFunc(all, func(d Difference) bool { return d.A == d.B })
}

// diff compares two lists by what each element is called. Of elements with one
// name, as of one module in two versions, all values count.
func diff[T any](a, b []T, describe func(T) (name, value string)) []Difference {
	index := func(all []T) map[string]string {
		m := map[string]string{}
		for _, e := range all {
			name, value := describe(e)
			if m[name] != "" {
				value = m[name] + ", " + value
			}
			m[name] = value
		}
		return m
	}

	of := index(a)
	to := index(b)
	both := maps.Clone(of)
	maps.Copy(both, to)

	var all []Difference
	for _, name := range slices.Sorted(maps.Keys(both)) {
		all = append(all, Difference{name, of[name], to[name]})
	}

	return changed(all)
}
