package volume

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/partitions/ext4"
)

// related are names that a bare magic does not tell apart, as more of the
// superblock would.
func related(name string) []string {
	for _, family := range [][]string{
		{"ext2", "ext3", "ext4", "ext4dev", "jbd"}, {"hfs", "hfsplus"}, {"gfs", "gfs2"},
		{"dos", "PMBR", "vfat", "minix", "gpt", "exfat", "ntfs"},
		{"bcache", "bcachefs"}, {"squashfs", "squashfs3"}, {"scoutfs_meta", "scoutfs_data"},
		{"udf", "iso9660"},
	} {
		if slices.Contains(family, name) {
			return family
		}
	}
	return []string{name}
}

func TestEverySignatureIsFoundAtItsPlace(t *testing.T) {
	n := 0
	for _, f := range facts(t, "libblkid.txt", "copies.txt") {
		for _, size := range []int64{2048*gib + 512*7, 300 * gib, 3*gib + 4096*5, 256 * mib} {
			disk := newSparse(size)
			if !f.put(disk) {
				continue
			}

			n++
			got := ReadContent(disk, size)
			named := func(e Evidence) bool {
				return slices.Contains(related(f.name), e.Name) && e.Offset == f.at(size)
			}
			if len(got.Evidence) == 0 || (!f.weak() && !slices.ContainsFunc(got.Evidence, named)) {
				t.Errorf("%s at %d of %d bytes: %v", f.name, f.at(size), size, got)
			}

			if disk.outside > 0 {
				t.Errorf("%s on %d bytes: %d reads beyond the disk", f.name, size, disk.outside)
			}
		}
	}

	t.Logf("%d places", n)
}

func TestLook(t *testing.T) {
	const size = 3*gib + 512
	label := func(at int64, text string) piece { return piece{at, []byte(text)} }
	ext4 := []piece{
		{1024 + 0x38, []byte("\x53\xef")},
		{1024 + 6, []byte{1}},
		{1024 + 0x60, []byte{0x40}},
		label(1024+0x78, Label),
	}

	xfs := []piece{{0, []byte("XFSB")}, label(0x6c, Label)}
	mark := piece{0, []byte(FormatMark)}
	for _, test := range []struct {
		name   string
		write  []piece
		broken int64
		want   Content
	}{
		{name: "a new disk", broken: -1},
		{
			name:   "old data between both ends",
			write:  []piece{{5 * mib, []byte("hello")}},
			broken: -1,
		},
		{
			name:   "the last byte of the first MiB",
			write:  []piece{{mib - 1, []byte{1}}},
			broken: -1,
			want:   Content{Evidence: []Evidence{{Unknown, "", mib - 1}}},
		},
		{
			name:   "the first byte of the last MiB",
			write:  []piece{{size - mib, []byte{1}}},
			broken: -1,
			want:   Content{Evidence: []Evidence{{Unknown, "", size - mib}}},
		},
		{
			name:   "the last byte",
			write:  []piece{{size - 1, []byte{1}}},
			broken: -1,
			want:   Content{Evidence: []Evidence{{Unknown, "", size - 1}}},
		},
		{
			name:   "a start that cannot be read",
			broken: 3,
			want:   Content{Evidence: []Evidence{{Unreadable, "", 0}}},
		},
		{
			name:   "an end that cannot be read",
			broken: size/512 - 1,
			want:   Content{Evidence: []Evidence{{Unreadable, "", size - size%chunk}}},
		},
		{
			name:   "a volume",
			write:  ext4,
			broken: -1,
			want: Content{
				Evidence:   []Evidence{{"ext4", "", 1080}},
				Volume:     Label,
				FileSystem: "ext4",
				Used:       64 * mib,
			},
		},
		{
			name:   "a volume of xfs",
			write:  xfs,
			broken: -1,
			want:   Content{Evidence: []Evidence{{"xfs", "", 0}}, Volume: Label, FileSystem: "xfs"},
		},
		{
			name:   "the file system of others",
			write:  ext4[:3],
			broken: -1,
			want:   Content{Evidence: []Evidence{{"ext4", "", 1080}}},
		},
		{
			name:   "a volume whose files hold the disks of others",
			write:  append(slices.Clone(ext4), piece{64*mib + 64, []byte("_BHRfS_M")}),
			broken: -1,
			want: Content{
				Evidence:   []Evidence{{"ext4", "", 1080}, {"btrfs", "", 64*mib + 64}},
				Volume:     Label,
				FileSystem: "ext4",
				Used:       64 * mib,
			},
		},
		{
			name: "a volume that is half of a mirror",
			write: append(slices.Clone(ext4),
				piece{size - 512 - 8*kib, []byte("\xfc\x4e\x2b\xa9")}),
			broken: -1,
			want: Content{Evidence: []Evidence{
				{"ext4", "", 1080},
				{"linux_raid_member", "1.0", size - 512 - 8*kib},
			}},
		},
		{
			name:   "a volume to be finished",
			write:  []piece{mark},
			broken: -1,
			want:   Content{Evidence: []Evidence{{marked, "", 0}}, Volume: Label, Unfinished: true},
		},
		{
			name:   "a volume to be finished, with a copy of its superblock",
			broken: -1,
			write: []piece{
				mark,
				{128*mib + 0x38, []byte("\x53\xef")},
				{128*mib + 4, []byte{1}},
				{128*mib + 0x18, []byte{2}},
				{128*mib + 0x5a, []byte{1}},
				{128*mib + 0x60, []byte{0x40}},
			},
			want: Content{
				Evidence:   []Evidence{{marked, "", 0}, {"ext4", "", 128*mib + 0x38}},
				Volume:     Label,
				Unfinished: true,
			},
		},
		{
			name:   "a mark, and the file system of others",
			write:  append(slices.Clone(ext4[:3]), piece{1024 + 0x78, []byte("photos")}, mark),
			broken: -1,
			want:   Content{Evidence: []Evidence{{marked, "", 0}, {"ext4", "", 1080}}, Volume: Label},
		},
		{
			name:   "a mark, and the volume but for its first sector",
			write:  append(slices.Clone(ext4), mark),
			broken: -1,
			want: Content{
				Evidence:   []Evidence{{marked, "", 0}, {"ext4", "", 1080}},
				Volume:     Label,
				Unfinished: true,
			},
		},
		{
			name:   "a mark, and the volume of others",
			write:  []piece{mark, {512, []byte("LABELONE")}},
			broken: -1,
			want:   Content{Evidence: []Evidence{{marked, "", 0}, {"LVM2_member", "", 512}}, Volume: Label},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			disk := newSparse(size)
			disk.broken = test.broken

			for _, p := range test.write {
				disk.write(p.rel, p.data)
			}

			if diff := cmp.Diff(test.want, ReadContent(disk, size)); diff != "" {
				t.Errorf("ReadContent (-want +got):\n%s", diff)
			}
			if disk.outside > 0 {
				t.Errorf("%d reads beyond the disk", disk.outside)
			}
		})
	}
}

// TestOddSizes: no size makes ReadContent read beyond the disk, or call a disk
// without bytes empty.
func TestOddSizes(t *testing.T) {
	for _, size := range []int64{
		-1, 0, 1, 2, 511, 512, 4095, 4096, 65536, mib - 1, mib, mib + 1, 2*mib - 1, 2 * mib,
		4*mib + 12345, 1<<62 + 511,
	} {
		disk := newSparse(size)
		if got := ReadContent(disk, size); (len(got.Evidence) == 0) != (size > 0) ||
			disk.outside > 0 {
			t.Errorf("%d bytes: %v, %d reads beyond", size, got, disk.outside)
		}
	}
}

// TestADyingDiskIsNotReadForHours: of a disk that answers nothing, few reads
// are tried.
func TestADyingDiskIsNotReadForHours(t *testing.T) {
	reads := 0
	got := ReadContent(readerAt(func([]byte, int64) (int, error) { reads++; return 0, errBroken }),
		100*gib)
	if reads > maxFailed || !got.has(Unreadable) {
		t.Errorf("%d reads: %v", reads, got)
	}
}

type readerAt func([]byte, int64) (int, error)

func (r readerAt) ReadAt(p []byte, off int64) (int, error) { return r(p, off) }

// FuzzLook: whatever stands at the ends is seen, and nothing is read elsewhere.
func FuzzLook(f *testing.F) {
	f.Add([]byte("EFI PART"), uint32(512), uint16(4096))
	f.Add([]byte{0x53, 0xef}, uint32(1080), uint16(9))

	f.Fuzz(func(t *testing.T, data []byte, at uint32, sectors uint16) {
		disk := newSparse(int64(sectors) * 512)
		disk.write(int64(at), data)
		c := ReadContent(disk, disk.size)
		if disk.outside > 0 {
			t.Errorf("%d reads beyond the disk", disk.outside)
		}

		for i, b := range data {
			off := int64(at) + int64(i)
			if b != 0 && off < disk.size && (off < edge || off >= disk.size-edge) &&
				len(c.Evidence) == 0 {
				t.Errorf("byte %d of %d is %#x: called empty", off, disk.size, b)
			}
		}
	})
}

func BenchmarkLook(b *testing.B) {
	disk := newSparse(500 * gib)
	for b.Loop() {
		ReadContent(disk, disk.size)
	}
}

// noise is n random bytes, the first of which is not zero.
func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	b[0] = max(b[0], 1)
	return b
}

func TestAStatePartitionBeforeItsFirstStartIsNamed(t *testing.T) {
	disk := newSparse(gib)
	disk.write(0, []byte(ext4.FormatMark))
	part := Part{Content: ReadContent(disk, gib)}
	if have := part.Summary(); have != "state partition, not formatted yet" {
		t.Errorf("%q", have)
	}
	if len(part.Content.Evidence) != 1 || part.Content.Evidence[0] != (Evidence{Name: Unknown}) {
		t.Errorf("evidence %v, want unknown bytes, by which is decided", part.Content)
	}
}

// TestAFATFileSystemIsNotBitLocker: Loam's begin as BitLocker To Go does.
func TestAFATFileSystemIsNotBitLocker(t *testing.T) {
	disk := newSparse(gib)
	disk.write(0, []byte("\xeb\x58\x90MSWIN4.1"))
	disk.write(mib, []byte("\xeb\x58\x90MSWIN4.1"))
	c := ReadContent(disk, gib)
	if c.has("BitLocker") || !c.has("vfat") {
		t.Errorf("%v, want vfat", c)
	}
}
