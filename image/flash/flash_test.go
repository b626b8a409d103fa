package flash

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"

	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
	"github.com/loam-os/loam/test/firmware"
)

const mib = 1 << 20

// memory is a disk, of which the blocks that were never written are of one byte.
type memory struct {
	blocks map[int64][]byte
	fill   byte
	// writes counts down; at 0 the power is gone. lies turns what is written there into something else.
	writes int
	lies   int64
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	for i := 0; i < len(p); i += 512 {
		b, ok := m.blocks[off+int64(i)]
		if !ok {
			b = bytes.Repeat([]byte{m.fill}, 512)
		}
		copy(p[i:], b)
	}
	return len(p), nil
}

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	for i := 0; i < len(p); i += 512 {
		if m.writes--; m.writes == 0 {
			return i, io.ErrClosedPipe
		}
		b := bytes.Clone(p[i : i+512])
		if off+int64(i) == m.lies && m.lies > 0 {
			b[0]++
		}
		m.blocks[off+int64(i)] = b
	}
	return len(p), nil
}

func (m *memory) Sync() error { return nil }

// image is a small one: one system, an ESP with a file, an empty state partition.
func image(t *testing.T, sector int) (disk firmware.Memory, table gpt.Table, size int64) {
	t.Helper()
	disk = firmware.NewMemory(nil)
	root := make([]byte, 40*verity.BlockSize)
	for i := range root[:20*verity.BlockSize] { // Zeros after them are content, too.
		root[i] = byte(rand.Uint32())
	}
	tree := firmware.NewMemory(nil)
	hash, treeSize, err := verity.Build(bytes.NewReader(root), int64(len(root)), tree, verity.Params{UUID: uuid.NewSHA1(uuid.Nil, []byte("tree"))})
	if err != nil {
		t.Fatal(err)
	}
	table = gpt.Table{DiskGUID: uuid.NewSHA1(uuid.Nil, []byte("disk")), SectorSize: sector}
	at := int64(gpt.Alignment)
	for i, p := range []struct {
		role partitions.Role
		size int64
	}{
		{partitions.ESP, 528 * mib}, {partitions.RootVeritySig, mib}, {partitions.RootVerity, 2 * mib}, {partitions.Root, 4 * mib},
		{partitions.RootVeritySig, mib}, {partitions.RootVerity, 2 * mib}, {partitions.Root, 4 * mib}, {partitions.State, 8 * mib},
	} {
		table.Partitions = append(table.Partitions, gpt.Partition{
			Index: i + 1, Type: partitions.TypeUUID(p.role, "amd64"), UUID: uuid.NewSHA1(uuid.Nil, []byte{byte(i)}), Label: string(p.role), Start: at, Size: p.size,
		})
		at += p.size
	}
	table.DiskSize = at + gpt.Alignment
	slots, err := partitions.Slots(table, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	table = slots[1].Empty(slots[0].Seal(table, "amd64", hash, "loam_1", false), "amd64")
	content := make([]byte, treeSize)
	if _, err := tree.ReadAt(content, 0); err != nil {
		t.Fatal(err)
	}
	part := table.Partitions[0]
	err = errors.Join(
		table.Create(disk),
		esp.Write(io.NewOffsetWriter(disk, part.Start), part.Size, sector, 1, []esp.File{{Path: "EFI/Linux/loam_1.efi", Data: bytes.Repeat([]byte("uki"), 1e5)}}),
	)
	for index, b := range map[int][]byte{slots[0].Root: root, slots[0].Verity: content} {
		_, writeErr := disk.WriteAt(b, table.Partition(index).Start)
		err = errors.Join(err, writeErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return disk, table, table.DiskSize
}

func quiet(string, int64, int64) {}

// TestWhatMattersIsOnTheDisk, whatever was there before; and what is free is not written.
func TestWhatMattersIsOnTheDisk(t *testing.T) {
	for _, sector := range []int{512, 4096} {
		source, table, size := image(t, sector)
		layers := NewOverlay(source)
		config := []byte("kind: Machine\n")
		im, err := Prepare(layers, size, config)
		if err != nil {
			t.Fatal(err)
		}
		if im.Bytes() > 16*mib {
			t.Errorf("%d bytes of an image with less than 1 MiB in it are to be written", im.Bytes())
		}
		disk := &memory{blocks: map[int64][]byte{}, fill: 0xaa}
		larger := size + 100*mib + 512*8
		old := gpt.Table{DiskGUID: table.DiskGUID, SectorSize: sector, DiskSize: larger}
		if err := old.Create(disk); err != nil {
			t.Fatal(err)
		}
		if err := Write(t.Context(), disk, larger, layers, im, quiet); err != nil {
			t.Fatal(err)
		}
		got, err := gpt.Read(disk, size, sector)
		if err != nil || !got.Source.Healthy() || got.DiskGUID != table.DiskGUID {
			t.Fatalf("table %v, %v", got.Source, err)
		}
		end := make([]byte, mib)
		if _, err := disk.ReadAt(end, larger-mib); err != nil || len(bytes.Trim(end, "\x00")) > 0 {
			t.Error("the backup of an older table is still there")
		}
		part := func(index int) *io.SectionReader {
			p := got.Partition(index)
			return io.NewSectionReader(disk, p.Start, p.Size)
		}
		hash, _ := partitions.Slot{Root: 4, Verity: 3}.Holds(got, "amd64")
		if err := verity.Verify(part(4), part(3), hash); err != nil {
			t.Error(err)
		}
		start := make([]byte, blank)
		if _, err := part(8).ReadAt(start, 0); err != nil || len(bytes.Trim(start, "\x00")) > 0 {
			t.Error("the state partition does not look empty")
		}
		files, err := fat.Open(readOnly{part(1)}, part(1).Size(), sector)
		if err != nil {
			t.Fatal(err)
		}
		if report := files.Check(); report.FATsDiffer > 0 || len(report.Crossed)+len(report.Broken)+len(report.Dirty) > 0 {
			t.Errorf("the ESP: %+v", report)
		}
		for path, want := range map[string][]byte{MachineFile: config, "EFI/Linux/loam_1.efi": bytes.Repeat([]byte("uki"), 1e5)} {
			r, err := files.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			if have, err := io.ReadAll(r); err != nil || !bytes.Equal(have, want) {
				t.Errorf("%s: %d bytes, %v", path, len(have), err)
			}
		}
		if files.Free() == 0 {
			t.Error("the ESP is full")
		}
	}
}

// TestADiskThatIsHalfWrittenDoesNotBoot: the table comes last, wherever the power is cut.
func TestADiskThatIsHalfWrittenDoesNotBoot(t *testing.T) {
	source, _, size := image(t, 512)
	im, err := Look(source, size, 512)
	if err != nil {
		t.Fatal(err)
	}
	whole := &memory{blocks: map[int64][]byte{}}
	if err := Write(t.Context(), whole, size, source, im, quiet); err != nil {
		t.Fatal(err)
	}
	n := -whole.writes
	for cut := 1; cut < n; cut += max(1, n/40) {
		disk := &memory{blocks: map[int64][]byte{}, writes: cut}
		if err := Write(t.Context(), disk, size, source, im, quiet); err == nil {
			t.Fatalf("cut at %d of %d: no error", cut, n)
		}
		table := make([]byte, 512)
		if _, err := disk.ReadAt(table, 512); err != nil || bytes.HasPrefix(table, []byte("EFI PART")) && cut < n-int(stride/512) {
			t.Fatalf("cut at %d of %d: the disk has a table", cut, n)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	err = Write(ctx, &memory{blocks: map[int64][]byte{}}, size, source, im, func(string, int64, int64) { stop() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

func TestADiskThatLiesIsFound(t *testing.T) {
	source, table, size := image(t, 512)
	im, err := Look(source, size, 512)
	if err != nil {
		t.Fatal(err)
	}
	disk := &memory{blocks: map[int64][]byte{}, lies: table.Partition(4).Start + 8192}
	if err := Write(t.Context(), disk, size, source, im, quiet); err == nil || !strings.Contains(err.Error(), "reads back as something else") {
		t.Errorf("%v", err)
	}
}

func host(change func(files fstest.MapFS)) Host {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	files := fstest.MapFS{
		"class/block/sdb/size": file("8000000\n"), "class/block/sdb/queue/logical_block_size": file("512\n"), "class/block/sdb/dev": file("8:16\n"),
		"class/block/sdb/removable": file("1\n"), "class/block/sdb/ro": file("0\n"), "class/block/sdb/device/model": file("Stick   \n"),
		"class/block/sdb/device/vpd_pg80": file("\x00\x80\x00\x08  AB1234"),
		"class/block/sdb/sdb1/partition":  file("1\n"), "class/block/sdb1/partition": file("1\n"), "class/block/sdb1/dev": file("8:17\n"),
	}
	change(files)
	return Host{Sys: files}
}

func TestObserve(t *testing.T) {
	h := host(func(fstest.MapFS) {})
	got, err := h.Observe("/dev/sdb")
	if err != nil || got.Model != "Stick" || got.Serial != "AB1234" || got.Size != 8000000*512 || !got.Removable || got.System || len(got.Uses) > 0 || got.Word() != "AB1234" {
		t.Errorf("%+v, %v", got, err)
	}
	h.Udev = fstest.MapFS{"b8:16": {Data: []byte("S:disk/by-id/x\nE:ID_MODEL=Ultra_Fit\nE:ID_SERIAL_SHORT=4C53\n")}}
	if got, err := h.Observe("/dev/sdb"); err != nil || got.Model != "Ultra Fit" || got.Serial != "4C53" {
		t.Errorf("as udev knows it: %+v, %v", got, err)
	}
	for device, want := range map[string]string{"/dev/sdc": "no block device", "/dev/sdb1": "it is a partition"} {
		if _, err := h.Observe(device); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", device, err, want)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	im := Image{Table: gpt.Table{SectorSize: 512, DiskSize: 3 << 30}}
	none := func(fstest.MapFS) {}
	crypt := func(files fstest.MapFS) {
		files["class/block/sdb1/holders/dm-0/x"] = &fstest.MapFile{}
		files["class/block/dm-0/dev"] = &fstest.MapFile{Data: []byte("253:0\n")}
	}
	for _, test := range []struct {
		name   string
		host   Host
		mounts string
		swaps  string
		want   string
	}{
		{name: "nothing against it", host: host(none)},
		{name: "it is mounted", host: host(none), mounts: "36 35 8:16 / /mnt rw - ext4 /dev/sdb rw\n", want: "in use: sdb is mounted on /mnt\nhint: unmount"},
		{name: "a partition is mounted", host: host(none), mounts: "36 35 8:17 / /media/stick rw - vfat /dev/sdb1 rw\n", want: "sdb1 is mounted on /media/stick"},
		{name: "the machine runs from it", host: host(none), mounts: "36 35 8:17 / / rw - ext4 /dev/sdb1 rw\n", want: "this machine runs from it"},
		{name: "by way of a mapping", host: host(crypt), mounts: "36 35 253:0 / / rw - ext4 /dev/mapper/root rw\n", want: "this machine runs from it: dm-0 is made of sdb1, dm-0 is mounted on /"},
		{name: "part of a mapping", host: host(crypt), want: "in use: dm-0 is made of sdb1"},
		{name: "swap", host: host(none), swaps: "Filename Type Size Used Priority\n/dev/sdb1 partition 1 0 -2\n", want: "sdb1 is swap"},
		{name: "read-only", host: host(func(f fstest.MapFS) { f["class/block/sdb/ro"].Data = []byte("1\n") }), want: "read-only\nhint: an SD card"},
		{name: "other sectors", host: host(func(f fstest.MapFS) { f["class/block/sdb/queue/logical_block_size"].Data = []byte("4096\n") }), want: "hint: loamctl build --sector-size 4096"},
		{name: "too small", host: host(func(f fstest.MapFS) { f["class/block/sdb/size"].Data = []byte("6291455\n") }), want: "it has 3071 MiB, the image needs 3072 MiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.host.Mounts, test.host.Swaps = test.mounts, test.swaps
			target, err := test.host.Observe("/dev/sdb")
			if err != nil {
				t.Fatal(err)
			}
			if err := Check(target, im); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
