package volume

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Summary says in plain words what the device holds, for an operator. The two
// copies of a partition table are one finding, and so are all signatures of one
// file system. The content of partitions is in their own summaries.
func (d Disk) Summary() string { return d.Content.summary(d.Parts) }

// Summary says in plain words what the partition holds.
func (p Part) Summary() string { return p.Content.summary(nil) }

func (c Content) summary(parts []Part) string {
	var out []string
	for _, e := range c.Evidence {
		// The first partition begins where the signatures of a lost one are
		// looked for.
		inside := e.Offset >= lostStart &&
			slices.ContainsFunc(parts, func(p Part) bool { return p.Content.has(e.Name) })
		what := e.plain()
		if p := c.purpose(); p != nil && e.Name == marked {
			what = p.a() + " that is being formatted"
		}
		if c.Unformatted && e.Name == Unknown && e.Offset == 0 {
			what = "state partition, not formatted yet"
		}
		if !inside && !slices.Contains(out, what) {
			out = append(out, what)
		}
	}

	// Without its table, the kernel may still know the partitions.
	if len(out) == 0 && len(parts) > 0 {
		return c.summary(nil)
	}

	// It protects a GPT from programs that do not know that.
	if slices.Contains(out, plainNames()["gpt"]) {
		out = slices.DeleteFunc(out, func(what string) bool { return what == plainNames()["PMBR"] })
	}

	if c.FileSystem != "" {
		out = append([]string{fmt.Sprintf("%s (%s)", c.purpose().Name, c.FileSystem)},
			slices.DeleteFunc(out, func(what string) bool {
				return what == c.FileSystem+" file system"
			})...)
	}

	return cmp.Or(strings.Join(out, ", "), "empty")
}

// plainNames are what the names of evidence stand for, where they do not say it
// themselves.
func plainNames() map[string]string {
	return map[string]string{
		"gpt":               "GUID partition table",
		"PMBR":              "protective MBR",
		"dos":               "MBR partition table",
		"vfat":              "FAT file system",
		"DM_verity_hash":    "dm-verity hash tree",
		"crypto_LUKS":       "LUKS encryption",
		"BitLocker":         "BitLocker encryption",
		"linux_raid_member": "member of a Linux RAID",
		"LVM2_member":       "LVM physical volume",
		"swap":              "swap area",
		marked:              "a volume that is being formatted",
		Unreadable:          Unreadable,
	}
}

// fileSystemNames are the evidence that is called a file system.
var fileSystemNames = []string{
	"ext2", "ext3", "ext4", "xfs", "btrfs", "ntfs", "exfat", "erofs", "squashfs", "f2fs", "iso9660",
	"udf", "hfsplus", "ReFS",
}

// plain says in plain words what the evidence is.
func (e Evidence) plain() string {
	switch name := plainNames()[e.Name]; {
	case name != "":
		return name
	case slices.Contains(fileSystemNames, e.Name):
		return e.Name + " file system"
	case e.Name == Unknown:
		return e.String()
	}
	return e.Name
}

// FormatSize returns a number of bytes in GiB, or in MiB for less than one GiB.
func FormatSize(bytes int64) string {
	unit := gib
	name := "GiB"
	if bytes < gib {
		unit = mib
		name = "MiB"
	}

	if bytes%unit == 0 {
		return fmt.Sprintf("%d %s", bytes/unit, name)
	}
	return fmt.Sprintf("%.1f %s", float64(bytes)/float64(unit), name)
}
