package boot

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/loam-os/loam/firmware/loadoption"
)

// TestTwin puts a copy of the system beside the node's disk /dev/vda, on each
// kind of disk. The copy is never taken, whatever its name, and wherever it
// appears first.
func TestTwin(t *testing.T) {
	const (
		copied  = "carry the same system, and neither the boot loader nor the firmware says"
		missing = "the boot loader came from another disk"
	)
	esp := machine().Disks[0].Table.Partitions[0].UUID
	public := image(machine()).Disks[0].Table.Partitions[0].UUID

	tests := []struct {
		name  string
		facts func(name string) Facts
		// root is the root partition of the chosen disk; "" if wantErr says why
		// no disk is chosen.
		root, wantErr string
		wait, unsure  bool
	}{
		{
			name: "a copy of the image, beside a disk with an identity of its own",
			facts: func(name string) Facts {
				f := twin(machine(), name)
				f.Disks[0] = image(Facts{Disks: f.Disks[:1:1]}).Disks[0]
				f.LoaderPartition = esp
				return f
			},
			root: "/dev/vda3",
		},
		{
			name: "the node's disk has not appeared yet",
			facts: func(name string) Facts {
				f := image(twin(machine(), name))
				f.Disks = f.Disks[:1]
				f.LoaderPartition = esp
				return f
			},
			wantErr: missing,
			wait:    true,
		},
		{
			name: "the firmware's option names the partition, and there is no loader",
			facts: func(name string) Facts {
				f := image(twin(machine(), name))
				f.BootOption.Partition = esp
				return f
			},
			root: "/dev/vda3",
		},
		{
			name: "an exact copy, and the firmware says where it started",
			facts: func(name string) Facts {
				f := twin(machine(), name)
				f.LoaderPartition = esp
				f.Disks[0].Hardware = []string{"pci 05.0", "sata 1"}
				f.Disks[1].Hardware = []string{"pci 05.0", "sata 0"}
				f.BootOption.Hardware = f.Disks[1].Hardware
				return f
			},
			root: "/dev/vda3",
		},
		{
			name: "an exact copy, and the firmware started a disk, not a partition",
			facts: func(name string) Facts {
				f := twin(machine(), name)
				f.Disks[1].Hardware = []string{"pci 04.0"}
				f.BootOption = loadoption.Location{Hardware: []string{"pci 04.0"}}
				return f
			},
			root: "/dev/vda3",
		},
		{
			name: "an exact copy, and nothing says which disk was started",
			facts: func(name string) Facts {
				f := twin(machine(), name)
				f.LoaderPartition = esp
				return f
			},
			wantErr: copied,
		},
		{
			name: "an exact copy on the same controller",
			facts: func(name string) Facts {
				f := twin(machine(), name)
				f.LoaderPartition = esp
				f.Disks[0].Hardware = []string{"pci 05.0"}
				f.Disks[1].Hardware = []string{"pci 05.0"}
				f.BootOption.Hardware = []string{"pci 05.0"}
				return f
			},
			wantErr: copied,
		},
		{
			name:    "no firmware",
			facts:   func(name string) Facts { return twin(machine(), name) },
			wantErr: copied,
		},
		{
			name: "the node's hash tree is damaged",
			facts: func(name string) Facts {
				f := twin(machine(), name)
				f.Disks[0] = image(Facts{Disks: f.Disks[:1:1]}).Disks[0]
				f.LoaderPartition = esp
				c := f.Disks[1].Contents[2]
				c.Verity = nil
				f.Disks[1].Contents[2] = c
				return f
			},
			wantErr: "verity partition /dev/vda2",
		},
		{
			name: "one disk at the first boot, where the firmware started",
			facts: func(string) Facts {
				f := image(machine())
				f.LoaderPartition = public
				f.Disks[0].Hardware = []string{"pci 05.0"}
				f.BootOption.Hardware = []string{"pci 05.0"}
				return f
			},
			root: "/dev/vda3",
		},
		{
			name: "one disk at the first boot, and it may be a copy",
			facts: func(string) Facts {
				f := image(machine())
				f.LoaderPartition = public
				return f
			},
			root:   "/dev/vda3",
			unsure: true,
		},
	}

	for _, test := range tests {
		for _, name := range []string{
			"/dev/sda", "/dev/nvme0n1", "/dev/rbd0", "/dev/mmcblk0", "/dev/vdb",
		} {
			t.Run(test.name+" "+name, func(t *testing.T) {
				f := test.facts(name)
				d, err := Decide(f)
				if test.wantErr != "" {
					if err == nil || !strings.Contains(err.Error(), test.wantErr) ||
						errors.Is(err, ErrOtherDisk) != test.wait {
						t.Errorf("error %v, want one with %q", err, test.wantErr)
					}
					for _, disk := range f.Disks {
						if err != nil && test.wantErr == copied &&
							!strings.Contains(err.Error(), disk.Device) {
							t.Errorf("error %v does not name %s", err, disk.Device)
						}
					}
					return
				}

				if err != nil {
					t.Fatal(err)
				}

				want := fmt.Sprint(test.root, " /dev/vda6 ", test.unsure, " ", len(f.Disks)-1)
				got := fmt.Sprint(d.Root, " ", d.State.Device, " ", d.Unsure, " ", len(d.Warnings))
				if got != want {
					t.Errorf("%s, want %s; warnings %q", got, want, d.Warnings)
				}
			})
		}
	}
}
