package disk

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/device"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/test/firmware"
)

// runningHash is the root hash of the system in slot A.
var runningHash = [32]byte{1, 16: 2}

// otherHash is the root hash of a system for slot B.
var otherHash = strings.Repeat("ab", 16) + strings.Repeat("cd", 16)

// newTable returns the table of a disk whose slot B is empty.
func newTable(t *testing.T) gpt.Table {
	t.Helper()
	defs, err := partitions.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	table, err := partitions.Place(defs, partitions.Params{
		Arch:       "amd64",
		RootHash:   runningHash,
		ImageID:    "loam",
		Version:    "1",
		SectorSize: 512,
	})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// slotOn is slot B on a disk with that table.
func slotOn(table gpt.Table, whole device.Device) OtherSlot {
	return OtherSlot{
		Disk: Disk{
			Arch:       "amd64",
			Size:       table.DiskSize,
			SectorSize: table.SectorSize,
			Whole:      whole,
		},
		Running: hex.EncodeToString(runningHash[:]),
		Log:     zap.NewNop(),
	}
}

// TestABadLastSector: the backup copy can be neither read nor written. What reads
// the table does not need it, so a healthy system is accepted. A change of the
// table is refused with the reason, and the primary copy stays.
func TestABadLastSector(t *testing.T) {
	table := newTable(t)
	memory := firmware.NewMemory(nil)
	if err := table.Create(memory); err != nil {
		t.Fatal(err)
	}
	slot := slotOn(table, firmware.BadEnd{Device: memory, From: table.DiskSize - 512})

	if holds, err := slot.Holds(); holds != "" || err != nil {
		t.Errorf("it holds %q, %v", holds, err)
	}
	if root, tree, err := slot.Size(); root == 0 || tree == 0 || err != nil {
		t.Errorf("it has %d and %d bytes, %v", root, tree, err)
	}

	before, err := slot.Disk.table()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func() error{
		"empty": slot.Empty,
		"seal":  func() error { return slot.Seal(otherHash, "loam_2", nil) },
	} {
		err := change()
		if !errors.Is(err, unix.EIO) || !strings.Contains(err.Error(), "backup partition table") {
			t.Errorf("%s: %v", name, err)
		}
	}
	after, err := slot.Disk.table()
	if err != nil || after.Source.Primary != nil || len(after.Partitions) != len(before.Partitions) {
		t.Errorf("the primary copy is %+v, %v", after.Source, err)
	}

	var report ESPReport
	(&ESPCheck{Slot: slot}).table(&report)
	const want = "the partition table is damaged (backup header sector "
	if len(report.Repaired)+len(report.Left) > 0 || !strings.HasPrefix(report.Table, want) ||
		!strings.Contains(report.Table, "and cannot be repaired: write backup partition table") {
		t.Errorf("the daily check says %+v", report)
	}
}

// TestADamagedTableIsRepaired by the daily check, and before a change of it.
func TestADamagedTableIsRepaired(t *testing.T) {
	table := newTable(t)
	damages := map[string]int64{
		"the protective MBR": 510,
		"the primary copy":   512,
		"the backup copy":    table.DiskSize - 512,
	}
	changes := map[string]func(OtherSlot) error{
		"the daily check": func(s OtherSlot) error {
			var report ESPReport
			(&ESPCheck{Slot: s}).table(&report)
			if len(report.Repaired) != 1 || report.Table != "" {
				t.Errorf("the daily check says %+v", report)
			}
			return nil
		},
		"empty": OtherSlot.Empty,
		"seal": func(s OtherSlot) error {
			return s.Seal(otherHash, "loam_2", nil)
		},
	}

	for what, at := range damages {
		for by, change := range changes {
			t.Run(what+" by "+by, func(t *testing.T) {
				memory := firmware.NewMemory(nil)
				if err := table.Create(memory); err != nil {
					t.Fatal(err)
				}
				if _, err := memory.WriteAt([]byte("damage"), at); err != nil {
					t.Fatal(err)
				}

				slot := slotOn(table, memory)
				if err := change(slot); err != nil {
					t.Fatal(err)
				}
				got, err := slot.Disk.table()
				if err != nil || got.Source.Fault() != nil {
					t.Errorf("%v, %v", got.Source.Fault(), err)
				}
			})
		}
	}
}
