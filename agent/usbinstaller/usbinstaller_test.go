package usbinstaller

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/firmware/loadoption"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
)

// packed stands for the packed disk image, sum is its SHA-256.
const packed = "a packed disk image"

var sum = func() string {
	s := sha256.Sum256([]byte(packed))
	return hex.EncodeToString(s[:])
}()

// drive makes a USB installer with a machine.yaml in a file.
func drive(t *testing.T, name, machine string, hardware ...string) boot.Disk {
	t.Helper()
	id, err := partitions.InstallerUUID(sum)
	if err != nil {
		t.Fatal(err)
	}
	const start, size = 1 << 20, 600 << 20
	d := boot.Disk{
		Device:     filepath.Join(t.TempDir(), name),
		Size:       size + 2<<20,
		SectorSize: 512,
		Removable:  true,
		Hardware:   hardware,
	}
	d.Table = &gpt.Table{
		DiskGUID: uuid.New(), SectorSize: d.SectorSize, DiskSize: d.Size,
		Partitions: []gpt.Partition{{
			Index: 1, Type: partitions.BasicData, UUID: id, Label: partitions.InstallerLabel,
			Start: start, Size: size,
		}},
	}

	f, err := os.Create(d.Device)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = errors.Join(f.Truncate(d.Size), d.Table.Create(f),
		esp.Write(io.NewOffsetWriter(f, start), size, d.SectorSize, 1, []esp.File{
			{Path: partitions.InstallerFile, Data: []byte(packed)},
			{Path: partitions.MachineFile, Data: []byte(machine)},
		}))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// damaged has the boot sector of the file system overwritten, and its copy.
func damaged(t *testing.T, d boot.Disk) boot.Disk {
	t.Helper()
	f, err := os.OpenFile(d.Device, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, 4096), d.Table.Partitions[0].Start); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheInstallerIsTheOneThatTheMachineWasStartedFrom(t *testing.T) {
	one := drive(t, "one", "one", "pci 14.0")
	same := drive(t, "same", "one", "pci 1c.0")
	two := drive(t, "two", "two", "pci 1d.0")
	broken := damaged(t, drive(t, "broken", "three", "pci 1f.0"))
	other := boot.Disk{Device: "other", Table: &gpt.Table{}}
	started := func(from string) loadoption.Location {
		return loadoption.Location{Hardware: []string{from}}
	}

	for _, test := range []struct {
		name   string
		disks  []boot.Disk
		option loadoption.Location
		want   boot.Disk
		unsure bool
		err    string
	}{
		{name: "none", disks: []boot.Disk{other}, err: ErrNotThere.Error()},
		{
			name:  "the only one, of which the firmware says nothing",
			disks: []boot.Disk{other, one}, want: one, unsure: true,
		},
		{
			name:  "the only one, which the firmware names",
			disks: []boot.Disk{one}, option: started("pci 14.0"), want: one,
		},
		{
			name:  "the only one so far: the firmware names another disk",
			disks: []boot.Disk{one}, option: started("pci 1d.0"), want: one, unsure: true,
		},
		{
			name:  "the one of several that the firmware names",
			disks: []boot.Disk{one, two, same}, option: started("pci 1d.0"), want: two,
		},
		{
			name:  "copies with one machine.yaml",
			disks: []boot.Disk{one, same}, want: one, unsure: true,
		},
		{
			name:  "with different machine.yaml, of which the firmware names none",
			disks: []boot.Disk{one, two},
			err:   "different machine.yaml",
		},
		{
			name:  "beside one that cannot be read",
			disks: []boot.Disk{broken, two}, want: two, unsure: true,
		},
		{
			name:  "the one that the firmware names cannot be read",
			disks: []boot.Disk{broken, two}, option: started("pci 1f.0"),
			err: "USB installer " + broken.Device,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			found, unsure, err := Find(boot.Facts{Disks: test.disks, BootOption: test.option}, sum)
			if test.err != "" {
				if !strings.Contains(hint.Text(err), test.err) {
					t.Errorf("%v, want %q", err, test.err)
				}
				return
			}
			if err != nil || found.Disk() != test.want.Device || unsure != test.unsure {
				t.Fatalf("%v, unsure %v, %v; want %s", found, unsure, err, test.want.Device)
			}
			if _, err := found.Packed(t.Context()); err != nil {
				t.Error(err)
			}
			if err := found.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
