package ext4

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/loam-os/loam/test/judge"
)

// changed is the superblock of an image, and the same after a mount: with its
// journal to be replayed, and its counts changed.
func changed(t *testing.T, f *os.File) (before, after []byte) {
	t.Helper()
	before = make([]byte, superblockSize)
	if _, err := f.ReadAt(before, SuperblockOffset); err != nil {
		t.Fatal(err)
	}

	after = append([]byte(nil), before...)
	le := binary.LittleEndian
	le.PutUint32(after[0x0c:], le.Uint32(after[0x0c:])-100) // free blocks
	le.PutUint16(after[0x34:], 7)                           // mounts
	le.PutUint32(after[offIncompat:], le.Uint32(after[offIncompat:])|recovers)
	le.PutUint64(after[0x178:], 12345) // KiB written
	le.PutUint32(after[offChecksum:], checksum(after))

	return before, after
}

func TestATornSuperblockIsRepaired(t *testing.T) {
	for name, torn := range map[string]func(before, after []byte) []byte{
		"the first sector is new": func(before, after []byte) []byte {
			return append(after[:sectorSize:sectorSize], before[sectorSize:]...)
		},
		"the second is": func(before, after []byte) []byte {
			return append(before[:sectorSize:sectorSize], after[sectorSize:]...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			img := mke2fs(t)
			f, err := os.OpenFile(img, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()

			before, after := changed(t, f)
			if _, err := f.WriteAt(torn(before, after), SuperblockOffset); err != nil {
				t.Fatal(err)
			}

			if _, err := ReadSuperblock(f); err == nil {
				t.Fatal("it is not torn")
			}
			if err := Repair(f); err != nil {
				t.Fatal(err)
			}
			if sb, err := ReadSuperblock(f); err != nil || sb.Size() != 256<<20 {
				t.Errorf("%+v, %v", sb, err)
			}

			// It replays the journal, which it says by 1, and there is nothing
			// else to do.
			out, err := exec.Command(judge.Find(t, "e2fsck"), "-p", img).CombinedOutput()
			if err != nil && !strings.Contains(string(out), "recovering journal") {
				t.Errorf("%v\n%s", err, out)
			}

			judge.Run(t, "e2fsck", "-fn", img)
		})
	}
}

func TestOnlyTornWritesAreRepaired(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(first, second []byte)
		err   string
	}{
		{"another file system's copy", func(_, second []byte) {
			second[offUUID]++
			binary.LittleEndian.PutUint32(second[offChecksum:], checksum(second))
		}, "differs from its copy at 0x68"},
		{"a copy that is damaged", func(_, second []byte) {
			second[0x34]++
		}, "copy in the second block group: ext4 superblock: wrong checksum"},
		{"no copy", func(_, second []byte) {
			clear(second)
		}, "copy in the second block group: no ext4 superblock"},
		{"a size of blocks that is another", func(first, _ []byte) {
			first[0x1c]++
		}, "differs from its copy at 0x14"},
		{"a feature that is another", func(first, _ []byte) {
			first[offIncompat] ^= 0x40
		}, "differs from its copy at 0x60"},
		{"fewer blocks", func(first, _ []byte) {
			binary.LittleEndian.PutUint32(first[offBlocksLow:], 65535)
		}, "fewer blocks"},
		{"no superblock at all", func(first, _ []byte) { clear(first) }, ErrNotExt4.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := os.OpenFile(mke2fs(t), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()

			const group = 128 << 20
			first := make([]byte, superblockSize)
			second := make([]byte, superblockSize)
			_, firstErr := f.ReadAt(first, SuperblockOffset)
			_, secondErr := f.ReadAt(second, group)
			first[offChecksum]++
			tc.spoil(first, second)
			_, err1 := f.WriteAt(first, SuperblockOffset)
			_, err2 := f.WriteAt(second, group)
			if err := errors.Join(firstErr, secondErr, err1, err2); err != nil {
				t.Fatal(err)
			}

			if err := Repair(f); err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}
