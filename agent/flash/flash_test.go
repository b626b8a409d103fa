package flash

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
	"github.com/loam-os/loam/test/firmware"
)

const mib = 1 << 20

// memory is a disk. Blocks that were never written are filled with one byte.
type memory struct {
	blocks map[int64][]byte
	fill   byte

	// writes counts down; at 0 the power is cut. At the offset lies the disk
	// stores other bytes than were written.
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
		m.writes--
		if m.writes == 0 {
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

// image is a small one: one system, an ESP with a file, an empty state
// partition.
func image(t *testing.T, sector int) (disk firmware.Memory, table gpt.Table, size int64) {
	t.Helper()
	disk = firmware.NewMemory(nil)

	root := make([]byte, 40*verity.BlockSize)
	// Zeros after them are content, too.
	_, _ = rand.NewChaCha8([32]byte{1}).Read(root[:20*verity.BlockSize])

	tree := firmware.NewMemory(nil)
	hash, treeSize, err := verity.Build(bytes.NewReader(root), int64(len(root)), tree,
		verity.Params{UUID: uuid.NewSHA1(uuid.Nil, []byte("tree"))})
	if err != nil {
		t.Fatal(err)
	}

	table = gpt.Table{DiskGUID: uuid.NewSHA1(uuid.Nil, []byte("disk")), SectorSize: sector}
	at := int64(gpt.Alignment)
	for i, p := range []struct {
		role partitions.Role
		size int64
	}{
		{partitions.ESP, 528 * mib}, {partitions.RootVeritySig, mib},
		{partitions.RootVerity, 2 * mib}, {partitions.Root, 4 * mib},
		{partitions.RootVeritySig, mib}, {partitions.RootVerity, 2 * mib},
		{partitions.Root, 4 * mib}, {partitions.State, 8 * mib},
	} {
		table.Partitions = append(table.Partitions, gpt.Partition{
			Index: i + 1,
			Type:  partitions.TypeUUID(p.role, "amd64"),
			UUID:  uuid.NewSHA1(uuid.Nil, []byte{byte(i)}),
			Label: string(p.role),
			Start: at,
			Size:  p.size,
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
		esp.Write(io.NewOffsetWriter(disk, part.Start), part.Size, sector, 1,
			[]esp.File{{Path: "EFI/Linux/loam_1.efi", Data: bytes.Repeat([]byte("uki"), 1e5)}}),
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

func noProgress(string, int64, int64) {}

func identity(t *testing.T) partitions.Identity {
	t.Helper()
	id, err := partitions.NewIdentity(cryptorand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// hasFiles wants these files on a healthy FAT, which it returns.
func hasFiles(t *testing.T, part *io.SectionReader, sector int, want map[string][]byte) *fat.FS {
	t.Helper()
	files, err := fat.Open(fat.ReadOnly(part), part.Size(), sector)
	if err != nil {
		t.Fatal(err)
	}

	report := files.Check()
	if report.FATsDiffer > 0 || len(report.Crossed)+len(report.Broken)+len(report.Dirty) > 0 {
		t.Errorf("the ESP: %+v", report)
	}

	for path, text := range want {
		r, err := files.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if have, err := io.ReadAll(r); err != nil || !bytes.Equal(have, text) {
			t.Errorf("%s: %d bytes, %v", path, len(have), err)
		}
	}

	return files
}

// TestAStickGetsItsMachineYAML replaces the machine.yaml of a USB installer.
func TestAStickGetsItsMachineYAML(t *testing.T) {
	drive := firmware.NewMemory(nil)
	part := gpt.Partition{
		Index: 1,
		Type:  partitions.BasicData,
		UUID:  uuid.NewSHA1(uuid.Nil, []byte("drive")),
		Label: partitions.InstallerLabel,
		Start: gpt.Alignment,
		Size:  528 * mib,
	}

	table := gpt.Table{
		DiskGUID:   uuid.NewSHA1(uuid.Nil, []byte("disk")),
		SectorSize: 512,
		DiskSize:   part.Size + 2*gpt.Alignment,
		Partitions: []gpt.Partition{part},
	}

	config := []byte("kind: Machine\n")
	layers := NewOverlay(drive)
	err := errors.Join(
		table.Create(drive),
		esp.Write(io.NewOffsetWriter(drive, part.Start), part.Size, 512, 1,
			[]esp.File{{Path: MachineFile, Data: []byte("# Which disk?\n")}}),
	)
	if err == nil {
		_, err = Prepare(layers, table.DiskSize, identity(t), config)
	}

	if err != nil {
		t.Fatal(err)
	}

	hasFiles(t, io.NewSectionReader(layers, part.Start, part.Size), 512,
		map[string][]byte{MachineFile: config})
}

// TestOnlyUsedBlocksAreWritten: what matters is on the disk, whatever was there
// before, and free space is not written.
func TestOnlyUsedBlocksAreWritten(t *testing.T) {
	for _, sector := range []int{512, 4096} {
		source, table, size := image(t, sector)
		layers := NewOverlay(source)
		config := []byte("kind: Machine\n")
		id := identity(t)
		im, err := Prepare(layers, size, id, config)
		if err != nil {
			t.Fatal(err)
		}

		if im.Bytes() > 16*mib {
			t.Errorf("%d bytes of an image with less than 1 MiB in it are to be written",
				im.Bytes())
		}

		disk := &memory{blocks: map[int64][]byte{}, fill: 0xaa}
		larger := size + 100*mib + 512*8
		old := gpt.Table{DiskGUID: table.DiskGUID, SectorSize: sector, DiskSize: larger}
		if err := old.Create(disk); err != nil {
			t.Fatal(err)
		}

		if err := Write(t.Context(), disk, larger, layers, im, noProgress); err != nil {
			t.Fatal(err)
		}

		got, err := gpt.Read(disk, size, sector)
		if err != nil || !got.Source.Healthy() {
			t.Fatalf("table %v, %v", got.Source, err)
		}

		want := id.Give(table)
		want.Source = got.Source
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the table (-want +got):\n%s", diff)
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

		files := hasFiles(t, part(1), sector,
			map[string][]byte{
				MachineFile:            config,
				"EFI/Linux/loam_1.efi": bytes.Repeat([]byte("uki"), 1e5),
			})
		if files.Free() == 0 {
			t.Error("the ESP is full")
		}
	}
}

// TestADiskThatIsHalfWrittenSaysSo: wherever the power is cut, the disk is as
// it was, has the mark, or the image.
func TestADiskThatIsHalfWrittenSaysSo(t *testing.T) {
	source, _, size := image(t, 512)
	im, err := Look(source, size)
	if err != nil {
		t.Fatal(err)
	}

	whole := &memory{blocks: map[int64][]byte{}}
	if err := Write(t.Context(), whole, size, source, im, noProgress); err != nil {
		t.Fatal(err)
	}

	n := -whole.writes
	for cut := 1; cut <= n; cut += 1 {
		if cut > 10 && cut < n-20 && cut%(n/40) > 0 {
			continue
		}

		disk := &memory{blocks: map[int64][]byte{}, writes: cut}
		if err := Write(t.Context(), disk, size, source, im, noProgress); err == nil {
			t.Fatalf("cut at %d of %d: no error", cut, n)
		}

		start := make([]byte, 512)
		if _, err := disk.ReadAt(start, 0); err != nil {
			t.Fatal(err)
		}

		untouched := len(bytes.Trim(start, "\x00")) == 0
		_, err := gpt.Read(disk, size, 512)
		switch marked := bytes.HasPrefix(start, []byte(Mark)); {
		case cut == 1 && !untouched, cut > 1 && cut <= n-7 && !marked, cut > n-7 &&
			(marked || err != nil):
			t.Fatalf("cut at %d of %d: begins with %.30q, table: %v", cut, n, start, err)
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	err = Write(ctx, &memory{blocks: map[int64][]byte{}}, size, source, im,
		func(string, int64, int64) { stop() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

func TestADiskThatLiesIsFound(t *testing.T) {
	source, table, size := image(t, 512)
	im, err := Look(source, size)
	if err != nil {
		t.Fatal(err)
	}

	disk := &memory{blocks: map[int64][]byte{}, lies: table.Partition(4).Start + 8192}
	if err := Write(t.Context(), disk, size, source, im, noProgress); err == nil ||
		!strings.Contains(err.Error(), "returns other bytes") {
		t.Errorf("%v", err)
	}

	start := make([]byte, 512)
	if _, err := disk.ReadAt(start, 0); err != nil || !bytes.HasPrefix(start, []byte(Mark)) {
		t.Errorf("it does not say that it is unfinished: %.30q, %v", start, err)
	}
}

// TestAnImageMayBeOnALargerDisk, such as the disk of a virtual machine that was
// enlarged: the image ends where its table says.
func TestAnImageMayBeOnALargerDisk(t *testing.T) {
	source, table, size := image(t, 512)
	im, err := Look(source, size+64*mib)
	if err != nil {
		t.Fatal(err)
	}

	disk := &memory{blocks: map[int64][]byte{}, fill: 0xaa}
	if err := Write(t.Context(), disk, size, source, im, noProgress); err != nil {
		t.Fatal(err)
	}
	if got, err := gpt.Read(disk, size, 512); err != nil || !got.Source.Healthy() {
		t.Errorf("%+v, %v", got.Source, err)
	}

	for off := range disk.blocks {
		if off >= table.DiskSize {
			t.Fatalf("written at %d, beyond the %d bytes of the disk", off, table.DiskSize)
		}
	}
}

// TestPartitionsInUseAreWritten has an image of a disk that a node has used, and
// partitions that are not Loam's.
func TestPartitionsInUseAreWritten(t *testing.T) {
	source, table, size := image(t, 512)
	table.Partitions[6].Label = "debian" // a root without a hash tree
	if err := table.Write(source); err != nil {
		t.Fatal(err)
	}

	const last = "the last block"
	at := map[int]int64{7: 4*mib - 4096, 8: 8*mib - 4096}
	for index, off := range at {
		p := table.Partition(index)
		_, err := source.WriteAt([]byte("something"), p.Start)
		_, lastErr := source.WriteAt([]byte(last), p.Start+off)
		if err := errors.Join(err, lastErr); err != nil {
			t.Fatal(err)
		}
	}

	im, err := Look(source, size)
	if err != nil {
		t.Fatal(err)
	}

	disk := &memory{blocks: map[int64][]byte{}, fill: 0xaa}
	if err := Write(t.Context(), disk, size, source, im, noProgress); err != nil {
		t.Fatal(err)
	}

	for index, off := range at {
		have := make([]byte, 512)
		_, err := disk.ReadAt(have, table.Partition(index).Start+off)
		if err != nil || !bytes.HasPrefix(have, []byte(last)) {
			t.Errorf("partition %d ends with %.20q, %v", index, have, err)
		}
	}
}

// TestBothSlotsAreWritten if both hold a system, of one version or of two.
func TestBothSlotsAreWritten(t *testing.T) {
	for _, label := range []string{"loam_1", "loam_2"} {
		source, table, size := image(t, 512)
		tree := make([]byte, 64<<10)
		root := make([]byte, 40*verity.BlockSize)
		_, treeErr := source.ReadAt(tree, table.Partition(3).Start)
		_, rootErr := source.ReadAt(root, table.Partition(4).Start)
		table.Partitions[5].Label = label
		table.Partitions[6].Label = label
		_, err := source.WriteAt(tree, table.Partition(6).Start)
		_, writeErr := source.WriteAt(root, table.Partition(7).Start)
		if err := errors.Join(treeErr, rootErr, err, writeErr, table.Write(source)); err != nil {
			t.Fatal(err)
		}

		im, err := Look(source, size)
		if err != nil {
			t.Fatal(err)
		}

		disk := &memory{blocks: map[int64][]byte{}, fill: 0xaa}
		if err := Write(t.Context(), disk, size, source, im, noProgress); err != nil {
			t.Fatal(err)
		}

		have := make([]byte, len(root))
		for _, index := range []int{4, 7} {
			_, err := disk.ReadAt(have, table.Partition(index).Start)
			if err != nil || !bytes.Equal(have, root) {
				t.Errorf("%s: partition %d is not as in the image, %v", label, index, err)
			}
		}
	}
}

// TestAnImageThatCannotBeReadIsToldBefore anything is written.
func TestAnImageThatCannotBeReadIsToldBefore(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(source firmware.Memory, table *gpt.Table)
		want   string
	}{
		{"a hash tree of more than its partition", func(source firmware.Memory, table *gpt.Table) {
			_, err := source.WriteAt([]byte{0, 0, 0, 1}, table.Partition(3).Start+72) // data blocks
			if err != nil {
				t.Fatal(err)
			}
		}, "partition 3 of the image: "},
		{"a disk that is not whole blocks", func(source firmware.Memory, table *gpt.Table) {
			table.DiskSize += 512
		}, "not whole blocks"},
	} {
		t.Run(test.name, func(t *testing.T) {
			source, table, _ := image(t, 512)
			test.change(source, &table)
			if err := table.Write(source); err != nil {
				t.Fatal(err)
			}
			_, err := Look(source, table.DiskSize)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
