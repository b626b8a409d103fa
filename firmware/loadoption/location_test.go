package loadoption

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// nodes of device paths, as EDK2 writes them.
var (
	pciRoot = []byte{2, 1, 12, 0, 0xd0, 0x41, 0x03, 0x0a, 0, 0, 0, 0}
	slot4   = []byte{1, 1, 6, 0, 0, 4}
	bridge  = []byte{1, 1, 6, 0, 0, 0x1c}
	ahci    = []byte{1, 1, 6, 0, 2, 0x1f}
	nvme1   = []byte{3, 23, 16, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	sata1   = []byte{3, 18, 10, 0, 1, 0, 0xff, 0xff, 0, 0}
	scsi21  = []byte{3, 2, 8, 0, 2, 0, 1, 0}
	sd0     = []byte{3, 26, 5, 0, 0}
)

// auto is an option that firmware makes for a disk.
func auto(nodes ...[]byte) []byte {
	path := append(slices.Concat(nodes...), end...)
	b := binary.LittleEndian.AppendUint32(nil, 1)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(path)))
	return slices.Concat(b, text("UEFI Misc Device"), path, []byte("optional data"))
}

func TestLocate(t *testing.T) {
	id := uuid.MustParse("00112233-4455-6677-8899-aabbccddeeff")
	own := Option{
		Description: "Loam",
		Partition:   1,
		ID:          id,
		Path:        "EFI/BOOT/BOOTX64.EFI",
	}
	for _, test := range []struct {
		name   string
		option []byte
		want   Location
	}{
		{"a partition alone", own.Encode(), Location{Partition: id}},
		{"virtio-blk", auto(pciRoot, slot4), Location{Hardware: []string{"pci 04.0"}}},
		{
			"NVMe behind a bridge",
			auto(pciRoot, bridge, slot4, nvme1),
			Location{Hardware: []string{"pci 1c.0", "pci 04.0", "nvme 1"}},
		},
		{
			"SATA",
			auto(pciRoot, ahci, sata1),
			Location{Hardware: []string{"pci 1f.2", "sata 1"}},
		},
		{
			"SCSI",
			auto(pciRoot, slot4, scsi21),
			Location{Hardware: []string{"pci 04.0", "scsi 2:1"}},
		},
		{
			"SD, and a partition of it",
			auto(pciRoot, slot4, sd0, own.hardDrive()),
			Location{Partition: id, Hardware: []string{"pci 04.0"}},
		},
		{"nothing that it knows", auto(sd0, slot4), Location{}},
	} {
		got, err := Locate(test.option)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
	}

	whole := auto(pciRoot, slot4)
	for _, broken := range [][]byte{nil, whole[:7], whole[:44], auto([]byte{1, 1, 0, 0})} {
		if got, err := Locate(broken); err == nil {
			t.Errorf("%x: %+v", broken, got)
		}
	}
}

func TestAnOptionIsRenewed(t *testing.T) {
	from := uuid.UUID{1}
	to := uuid.MustParse("00112233-4455-6677-8899-aabbccddeeff")
	o := Option{
		Description: "Loam",
		Partition:   1,
		ID:          from,
		Path:        "EFI/BOOT/BOOTX64.EFI",
	}
	want := o
	want.ID = to

	got, ok := Renew(o.Encode(), from, to)
	if diff := cmp.Diff(want.Encode(), got); !ok || diff != "" {
		t.Errorf("renewed %v (-want +got):\n%s", ok, diff)
	}

	for _, other := range [][]byte{want.Encode(), auto(pciRoot, slot4), {1}} {
		if got, ok := Renew(other, from, to); ok || !slices.Equal(got, other) {
			t.Errorf("%x: renewed to %x", other, got)
		}
	}
}

func TestAnOptionLeadsToADisk(t *testing.T) {
	sata := []string{"pci 1f.2", "sata 0"}

	for _, test := range []struct {
		name     string
		hardware []string
		disk     []string
		want     bool
	}{
		{"the same", sata, sata, true},
		{"another port", []string{"pci 1f.2", "sata 1"}, sata, false},
		{"another device", []string{"pci 04.0"}, sata, false},
		{"the controller is known", []string{"pci 1f.2"}, sata, true},
		{"the disk's port is not known", sata, []string{"pci 1f.2"}, true},
		{"a short form", nil, sata, false},
		{"a disk that is not on PCI", sata, nil, false},
	} {
		if got := (Location{Hardware: test.hardware}).LeadsTo(test.disk); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func FuzzLocate(f *testing.F) {
	f.Add(auto(pciRoot, bridge, slot4, nvme1))
	f.Add(Option{Description: "Loam", Path: "EFI"}.Encode())
	f.Fuzz(func(t *testing.T, option []byte) {
		from, err := Locate(option)
		renewed, ok := Renew(option, from.Partition, uuid.UUID{1})
		if len(renewed) != len(option) || (err != nil && ok) {
			t.Errorf("%x: %v, renewed to %x", option, err, renewed)
		}
	})
}
