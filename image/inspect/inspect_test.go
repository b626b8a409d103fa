package inspect

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/test/firmware"
)

// TestALoaderThatCannotBeRead: an unreadable loader is not a missing loader.
func TestALoaderThatCannotBeRead(t *testing.T) {
	for _, test := range []struct{ name, file, want string }{
		{"none", "loader/loader.conf", ""},
		{
			"a directory in its place",
			loader.Path("amd64") + "/file",
			"partition 1: open: " + loader.Path("amd64"),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			disk, size := diskWith(t, test.file)
			if _, err := Read(disk, size); (err == nil) != (test.want == "") ||
				(err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// diskWith returns a disk with one file on its ESP, and its size.
func diskWith(t *testing.T, file string) (disk firmware.Memory, size int64) {
	t.Helper()
	disk = firmware.NewMemory(nil)
	part := gpt.Partition{
		Index: 1,
		Type:  partitions.TypeUUID(partitions.ESP, "amd64"),
		UUID:  uuid.New(),
		Label: "esp",
		Start: gpt.Alignment,
		Size:  528 << 20,
	}

	table := gpt.Table{
		DiskGUID:   uuid.New(),
		SectorSize: 512,
		DiskSize:   part.End() + gpt.Alignment,
		Partitions: []gpt.Partition{part},
	}

	err := errors.Join(table.Create(disk),
		esp.Write(io.NewOffsetWriter(disk, part.Start), part.Size, 512, 1,
			[]esp.File{{Path: file, Data: []byte("text")}}))
	if err != nil {
		t.Fatal(err)
	}

	return disk, table.DiskSize
}

func TestMachineYAMLOfADiskIsShown(t *testing.T) {
	for file, want := range map[string]string{
		partitions.MachineFile: "text",
		"loader/loader.conf":   "",
	} {
		disk, size := diskWith(t, file)
		im, err := Read(disk, size)
		if err != nil || im.Disk.DeviceSize != size || im.Disk.Machine != want {
			t.Errorf("%s: %+v, %v, want machine.yaml %q", file, im.Disk, err, want)
		}
		if have, err := Machine(disk, size); err != nil || have != want {
			t.Errorf("%s: machine.yaml alone %q, %v, want %q", file, have, err, want)
		}
	}
}

func TestDamageOfTheProtectiveMBRIsShown(t *testing.T) {
	disk, size := diskWith(t, partitions.MachineFile)
	im, err := Read(disk, size)
	if err != nil || im.Disk.Damage != "" {
		t.Fatalf("damage %q, %v", im.Disk.Damage, err)
	}

	if _, err := disk.WriteAt(make([]byte, 512), 0); err != nil {
		t.Fatal(err)
	}
	im, err = Read(disk, size)
	if err != nil || im.Disk.Damage != "protective MBR: signature is missing" {
		t.Errorf("damage %q, %v", im.Disk.Damage, err)
	}
}
