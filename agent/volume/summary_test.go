package volume

import (
	"strings"
	"testing"
)

func TestFindingsAreNamedOnceByWhatTheyAre(t *testing.T) {
	evidence := func(names ...string) (c Content) {
		for i, name := range names {
			c.Evidence = append(c.Evidence, Evidence{Name: name, Offset: int64(512 * i)})
		}
		return c
	}

	for _, test := range []struct {
		name string
		disk Disk
		want string
	}{
		{"an empty disk", Disk{}, "empty"},
		{
			"a disk that Loam has written",
			Disk{
				Content: Content{Evidence: []Evidence{
					{"PMBR", "", 510},
					{"gpt", "", 512},
					{"vfat", "", mib},
					{"vfat", "", mib + 82},
					{"gpt", "", 8*gib - 512},
				}},
				Parts: []Part{{Content: evidence("vfat")}, {Content: evidence("ext4", "ext4")}},
			},
			"GUID partition table",
		},
		{
			"a disk whose table is gone, and not yet its partitions",
			Disk{
				Content: Content{Evidence: []Evidence{{"vfat", "", mib + 82}}},
				Parts:   []Part{{Content: evidence("vfat")}},
			},
			"FAT file system",
		},
		{
			"a file system in front of partitions with another",
			Disk{
				Content: Content{Evidence: []Evidence{{"ext4", "", 1080}}},
				Parts:   []Part{{Content: evidence("ext4")}},
			},
			"ext4 file system",
		},
		{
			"a partition with a file system and its copies",
			Disk{Content: evidence("ext4", "ext4", "ext4", "ext4")},
			"ext4 file system",
		},
		{
			"a file system whose partition is lost",
			Disk{Content: evidence("dos", "vfat")},
			"MBR partition table, FAT file system",
		},
		{
			"a data volume",
			Disk{Content: Content{Volume: Label, FileSystem: "ext4", Evidence: evidence("ext4", "ext4").Evidence}},
			"data volume (ext4)",
		},
		{
			"what has no other name",
			Disk{Content: evidence("zfs_member", "PMBR", Unknown)},
			"zfs_member, protective MBR, unknown bytes at byte 1024",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if have := test.disk.Summary(); have != test.want {
				t.Errorf("%q, want %q", have, test.want)
			}
		})
	}
}

func TestListOfPartsHasAllPartitions(t *testing.T) {
	r := newRefusal("no disk is claimed", Facts{Disks: []Disk{{
		Device: "/dev/sda",
		Size:   100*gib + 512*mib,
		Model:  "FAST",
		Uses:   []string{"held by dm-0"},
		Parts: []Part{
			{
				Device: "/dev/sda1",
				Label:  "esp",
				Size:   gib,
				Content: Content{
					Evidence: []Evidence{{Name: "vfat"}},
				},
			},
			{Device: "/dev/sda2", Size: 16 * mib},
		},
	}}}, Claim{})

	const disk = "  /dev/sda: 100.5 GiB, FAST: held by dm-0\n"
	const parts = "    /dev/sda1: 1 GiB, esp: FAT file system\n    /dev/sda2: 16 MiB: empty\n"
	if have := r.ListParts(); have != disk+parts {
		t.Errorf("%s, want %s", have, disk+parts)
	}
	if have := r.List(); !strings.HasPrefix(have, disk) || strings.Contains(have, "sda1") {
		t.Errorf("without partitions: %s", have)
	}
}
