package gpt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
)

const mib = 1 << 20

var (
	espType = uuid.MustParse("c12a7328-f81f-11d2-ba4b-00a0c93ec93b")
	varUUID = uuid.MustParse("3f2504e0-4f89-41d3-9a0c-0305e82c3301")
	noErrs  = cmpopts.IgnoreFields(Table{}, "Source")
)

// sample is an ESP and a state partition on a disk of 64 MiB.
func sample(sectorSize int) Table {
	return Table{
		DiskGUID:   uuid.MustParse("8f0bb1c5-2a59-4a2c-8e0d-2b7f5c5c1d11"),
		SectorSize: sectorSize,
		DiskSize:   64 * mib,
		Partitions: []Partition{
			{
				Index: 1,
				Type:  espType,
				UUID:  uuid.MustParse("0b7f4a60-1111-4222-8333-444455556666"),
				Label: "esp",
				Start: 1 * mib,
				Size:  32 * mib,
			},
			{
				Index:      6,
				Type:       stateType,
				UUID:       varUUID,
				Label:      "loam-state ü",
				Start:      33 * mib,
				Size:       16 * mib,
				Attributes: GrowFS,
			},
		},
	}
}

// write puts a change into the journal of a memory disk.
type write struct {
	off  int64
	data []byte // nil: a flush
}

// memDisk is a disk in memory that records its writes and flushes.
type memDisk struct {
	data []byte
	log  []write
}

func (d *memDisk) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(p)) > int64(len(d.data)) {
		return 0, fmt.Errorf("read outside the disk: %d+%d", off, len(p))
	}
	return copy(p, d.data[off:]), nil
}

func (d *memDisk) WriteAt(p []byte, off int64) (int, error) {
	d.log = append(d.log, write{off, slices.Clone(p)})
	return copy(d.data[off:off+int64(len(p))], p), nil
}

func (d *memDisk) Sync() error {
	d.log = append(d.log, write{})
	return nil
}

// created is a memory disk with the table on it.
func created(t *testing.T, table Table) *memDisk {
	t.Helper()
	d := &memDisk{data: make([]byte, table.DiskSize)}
	if err := table.Create(d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestReadWhatWriteWrote(t *testing.T) {
	for _, sectorSize := range []int{512, 4096} {
		want := sample(sectorSize)
		d := created(t, want)
		got, err := Read(d, int64(len(d.data)), sectorSize)
		if err != nil {
			t.Fatal(err)
		}

		want.Source.Used = Primary
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sector size %d (-want +got):\n%s", sectorSize, diff)
		}
	}
}

func TestReadDamagedTable(t *testing.T) {
	const last = 64*mib - 512
	for _, tc := range []struct {
		name            string
		flip            []int64
		used            Copy
		primary, backup string
		err             string
	}{
		{name: "valid table", used: Primary},
		{
			name:    "primary header damaged",
			flip:    []int64{512 + 60},
			used:    Backup,
			primary: "header checksum is wrong",
		},
		{
			name:    "primary array damaged",
			flip:    []int64{1024 + 3},
			used:    Backup,
			primary: "partition array in sector 2: checksum",
		},
		{
			name:   "backup header damaged",
			flip:   []int64{last},
			used:   Primary,
			backup: "no GPT signature",
		},
		{
			name:   "backup array damaged",
			flip:   []int64{last - 9},
			used:   Primary,
			backup: "checksum is wrong",
		},
		{
			name: "both damaged",
			flip: []int64{512, last},
			err:  "primary: header sector 1: no GPT signature; backup: ",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := created(t, sample(512))
			for _, off := range tc.flip {
				d.data[off] ^= 0x55
			}

			got, err := Read(d, 64*mib, 512)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				return
			}

			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sample(512), got, noErrs); diff != "" {
				t.Error(diff)
			}
			if got.Source.Used != tc.used || got.Source.Healthy() != (len(tc.flip) == 0) {
				t.Errorf("source %+v", got.Source)
			}

			for _, e := range []struct {
				err  error
				want string
			}{{got.Source.Primary, tc.primary}, {got.Source.Backup, tc.backup}} {
				if (e.err == nil) != (e.want == "") ||
					(e.err != nil && !strings.Contains(e.err.Error(), e.want)) {
					t.Errorf("error %v, want %q", e.err, e.want)
				}
			}
		})
	}
}

// TestPowerCutInWrite cuts the power at every write of a change: some copy is
// always valid, and it is the old or the new table.
func TestPowerCutInWrite(t *testing.T) {
	before := sample(512)
	after, _ := before.Grow(80 * mib)
	after.Partitions[1].Label = "changed"
	start := created(t, before)
	start.data = append(start.data, make([]byte, 16*mib)...)
	rec := &memDisk{data: slices.Clone(start.data)}
	if err := after.Write(rec); err != nil {
		t.Fatal(err)
	}

	flushes := []bool{rec.log[2].data == nil, rec.log[5].data == nil}
	if len(rec.log) != 6 ||
		!flushes[0] || !flushes[1] {
		t.Fatalf("want array, header, flush twice, got %d steps", len(rec.log))
	}

	for cut := range len(rec.log) + 1 {
		d := &memDisk{data: slices.Clone(start.data)}
		for _, w := range rec.log[:cut] {
			copy(d.data[w.off:], w.data)
		}

		got, err := Read(d, 80*mib, 512)
		if err != nil {
			t.Fatalf("cut after %d: %v", cut, err)
		}
		if !cmp.Equal(got, before, noErrs) && !cmp.Equal(got, after, noErrs) {
			t.Errorf("cut after %d: neither the old nor the new table", cut)
		}
	}
}

func TestPowerCutInRepairLeavesTheOnlyGoodCopy(t *testing.T) {
	start := created(t, sample(512))
	start.data[512] ^= 1 // the primary header's signature

	damaged, err := Read(start, int64(len(start.data)), 512)
	if err != nil || damaged.Source.Used != Backup {
		t.Fatalf("read with a damaged primary: %v, used %s", err, damaged.Source.Used)
	}

	rec := &memDisk{data: slices.Clone(start.data)}
	if err := damaged.Write(rec); err != nil {
		t.Fatal(err)
	}

	for cut := range len(rec.log) + 1 {
		d := &memDisk{data: slices.Clone(start.data)}
		for i, w := range rec.log[:cut] {
			if i == cut-1 { // a torn write: the sectors of the last one are garbage
				w.data = slices.Repeat([]byte{0xff}, len(w.data))
			}
			copy(d.data[w.off:], w.data)
		}
		if _, err := Read(d, int64(len(d.data)), 512); err != nil {
			t.Errorf("cut in step %d: %v", cut, err)
		}
	}
}

func TestCopiesThatDifferAreReported(t *testing.T) {
	old := sample(512)
	changed := sample(512)
	d := created(t, old)
	changed.Partitions[0].Label = "newer"
	w := created(t, changed)
	copy(d.data[50*mib:], w.data[50*mib:])

	got, err := Read(d, 64*mib, 512)
	if err != nil || got.Partitions[0].Label != "esp" ||
		!errors.Is(got.Source.Backup, ErrCopiesDiffer) {
		t.Errorf("table %+v, error %v", got, err)
	}
}

func TestGrow(t *testing.T) {
	notState := sample(512)
	notState.Partitions[1].Type = espType
	for _, tc := range []struct {
		name    string
		table   Table
		disk    int64
		changed bool
		size    int64 // of the last partition, MiB
		span    int64
	}{
		{"disk has grown: state ends 1 MiB before it", sample(512), 128 * mib, true, 94, 128 * mib},
		{
			"grown by an odd size: end is aligned",
			sample(4096),
			128*mib + 777_777,
			true,
			95,
			128*mib + 774_144,
		},
		{"same size, room behind the state partition", sample(512), 64 * mib, true, 30, 64 * mib},
		{"smaller disk: nothing shrinks", sample(512), 10 * mib, true, 30, 64 * mib},
		{
			"last partition is not the state: only the backup moves",
			notState,
			128 * mib,
			true,
			16,
			128 * mib,
		},
		{
			"last partition is not the state, same size: no change",
			notState,
			64 * mib,
			false,
			16,
			64 * mib,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, changed := tc.table.Grow(tc.disk)
			if changed != tc.changed || got.DiskSize != tc.span ||
				got.Partitions[1].Size != tc.size*mib {
				t.Errorf("changed %v, disk %d, size %d MiB",
					changed, got.DiskSize, got.Partitions[1].Size/mib)
			}

			if err := got.Validate(); err != nil {
				t.Error(err)
			}
			if again, changed := got.Grow(tc.disk); changed {
				t.Errorf("second Grow changes: %+v", again)
			}
			if tc.table.Partitions[1].Size != 16*mib {
				t.Error("Grow changed its receiver")
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Table)
		err    string
	}{
		{"sample is valid", func(*Table) {}, ""},
		{"label of 36 units", func(t *Table) {
			t.Partitions[0].Label = strings.Repeat("x", 36)
		}, ""},
		{"label of 37 units", func(t *Table) {
			t.Partitions[0].Label = strings.Repeat("x", 37)
		}, "37 UTF-16 units"},
		{"label of 19 surrogate pairs", func(t *Table) {
			t.Partitions[0].Label = strings.Repeat("😀", 19)
		}, "38 UTF-16 units"},
		{"overlap", func(t *Table) {
			t.Partitions[1].Start -= mib
		}, "where the one before it ends"},
		{"index 0", func(t *Table) { t.Partitions[0].Index = 0 }, "index outside"},
		{"index twice", func(t *Table) { t.Partitions[0].Index = 6 }, "used twice"},
		{"UUID twice", func(t *Table) { t.Partitions[0].UUID = varUUID }, "used twice"},
		{"beyond the disk", func(t *Table) {
			t.Partitions[1].Size = 31 * mib
		}, "outside the usable"},
		{"over the primary array", func(t *Table) {
			t.Partitions[0].Start = 512
		}, "outside the usable"},
		{"half a sector", func(t *Table) { t.Partitions[0].Start += 256 }, "not whole sectors"},
		{"size overflows", func(t *Table) {
			t.Partitions[1].Size = 1<<63 - 512
		}, "outside the usable"},
		{"sector size 2048", func(t *Table) { t.SectorSize = 2048 }, "want 512 or 4096"},
		{"tiny disk", func(t *Table) { t.DiskSize = 4096 }, "too small"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table := sample(512)
			tc.change(&table)
			err := table.Validate()
			if (err == nil) != (tc.err == "") ||
				(err != nil && !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

// TestProtectiveMBR: without a valid one, firmware and Linux look for no table
// (is_pmbr_valid of block/partitions/efi.c).
func TestProtectiveMBR(t *testing.T) {
	entry := func(number int, kind byte, start uint32) func(sector []byte) {
		return func(sector []byte) {
			e := sector[446+16*number:]
			e[4] = kind
			binary.LittleEndian.PutUint32(e[8:], start)
		}
	}
	for _, tt := range []struct {
		name   string
		change func(sector []byte)
		fault  string
	}{
		{"as it was written", func([]byte) {}, ""},
		{"zeroed", func(sector []byte) { clear(sector) }, "signature is missing"},
		{"no signature", func(sector []byte) { sector[511] = 0 }, "signature is missing"},
		{"no partition", func(sector []byte) { clear(sector[446:510]) }, "no partition of type 0xEE"},
		{"an MBR of its own", entry(0, 0x83, 2048), "no partition of type 0xEE"},
		{"a partition that begins elsewhere", entry(0, 0xEE, 2), "no partition of type 0xEE"},
		{
			"a hybrid, with the partition in the last entry",
			func(sector []byte) {
				entry(0, 0x0c, 2048)(sector)
				entry(3, 0xEE, 1)(sector)
			},
			"",
		},
		{"the code of a boot loader", func(sector []byte) { sector[0] = 0xeb }, ""},
	} {
		for _, sectorSize := range []int{512, 4096} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, sectorSize), func(t *testing.T) {
				d := created(t, sample(sectorSize))
				tt.change(d.data[:512])
				before := slices.Clone(d.data)
				got, err := Read(d, int64(len(d.data)), sectorSize)
				if err != nil || !got.Source.Healthy() {
					t.Fatalf("%+v, %v: the copies are right", got.Source, err)
				}
				fault := got.Source.Fault()
				if (tt.fault == "") != (fault == nil) ||
					(fault != nil && !strings.Contains(fault.Error(), tt.fault)) {
					t.Errorf("fault %v, want %q", fault, tt.fault)
				}

				d.log = nil
				if err := got.Repair(d); err != nil {
					t.Fatal(err)
				}
				if tt.fault == "" && len(d.log) > 0 {
					t.Errorf("%d writes to a table that is right", len(d.log))
				}
				again, err := Read(d, int64(len(d.data)), sectorSize)
				if err != nil || again.Source.Fault() != nil {
					t.Errorf("after the repair: %+v, %v", again.Source, err)
				}
				if !slices.Equal(before[sectorSize:], d.data[sectorSize:]) {
					t.Error("the repair has changed more than the MBR")
				}
			})
		}
	}
}
