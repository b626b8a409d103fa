package gpt

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzRead: any bytes give an error or a valid table that reads back equal
// after it is written.
func FuzzRead(f *testing.F) {
	table := sample(512)
	table.DiskSize = 1 * mib
	table.Partitions = nil
	table.Partitions = []Partition{{
		Index: 3,
		Type:  stateType,
		UUID:  varUUID,
		Label: "state",
		Start: 64 << 10,
		Size:  512 << 10,
	}}

	d := &memDisk{data: make([]byte, table.DiskSize)}
	if err := table.Create(d); err != nil {
		f.Fatal(err)
	}

	f.Add(d.data[512:1024], d.data[1024:2048], uint16(2048))
	f.Fuzz(func(t *testing.T, header, array []byte, sectors uint16) {
		disk := &memDisk{data: make([]byte, int64(sectors)*512)}
		copy(disk.data[min(512, len(disk.data)):], header)
		copy(disk.data[min(1024, len(disk.data)):], array)
		repairChecksums(disk.data)

		got, err := Read(disk, int64(len(disk.data)), 512)
		if err != nil {
			return
		}
		if err := got.Write(disk); err != nil {
			t.Fatalf("cannot write what was read: %v", err)
		}

		again, err := Read(disk, int64(len(disk.data)), 512)
		if diff := cmp.Diff(got, again, noErrs); err != nil || diff != "" {
			t.Fatalf("read back: %v\n%s", err, diff)
		}
	})
}

// repairChecksums makes the primary copy's checksums right, so that fuzzing
// gets behind them.
func repairChecksums(disk []byte) {
	if len(disk) < 1024+arraySize {
		return
	}

	h := disk[512:1024]
	binary.LittleEndian.PutUint32(h[88:], crc32.ChecksumIEEE(disk[1024:1024+arraySize]))
	clear(h[16:20])
	binary.LittleEndian.PutUint32(h[16:], crc32.ChecksumIEEE(h[:headerSize]))
}
