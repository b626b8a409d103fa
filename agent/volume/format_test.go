package volume

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/partitions/sparse"
	"github.com/loam-os/loam/test/judge"
)

// recorder is a target that keeps what was written since it was synced.
type recorder struct {
	disk    *inMemory
	pending []piece
	// atSync is called before pending writes become durable.
	atSync func()
}

func (r *recorder) WriteAt(p []byte, off int64) (int, error) {
	for i := 0; i < len(p); i += 512 {
		r.pending = append(r.pending, piece{off + int64(i), bytes.Clone(p[i : i+512])})
	}
	return len(p), nil
}

func (r *recorder) ReadAt(b []byte, off int64) (int, error) { return r.disk.ReadAt(b, off) }
func (r *recorder) Seek(int64, int) (int64, error)          { return r.disk.size, nil }
func (r *recorder) Close() error                            { return r.Sync() }

// Zero is durable at once: zeros are no evidence.
func (r *recorder) Zero(off, n int64) error {
	for at := range r.disk.sectors {
		if at*512 >= off && at*512 < off+n {
			delete(r.disk.sectors, at)
		}
	}
	return nil
}

func (r *recorder) Sync() error {
	r.atSync()
	for _, p := range r.pending {
		r.disk.write(p.rel, p.data)
	}
	r.pending = nil
	return nil
}

// image makes a file system for a disk by mkfs.
func image(t *testing.T, fileSystem string, size int64, sector int) (*os.File, []sparse.Extent) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	file := create(t, path, size)
	command := Mkfs(fileSystem, Label, path, size, sector)
	judge.Run(t, command[0], command[1:]...)

	data, err := sparse.Data(file, size)
	if err != nil {
		t.Fatal(err)
	}

	return file, data
}

// used returns a disk that is empty for ReadContent, and full of old data.
func used(t *testing.T, r *rand.Rand, size int64) *inMemory {
	t.Helper()
	disk := newSparse(size)
	for range 300 {
		disk.write(2*mib+r.Int64N(size-4*mib), noise(r, 4096))
	}
	if c := ReadContent(disk, size); len(c.Evidence) > 0 {
		t.Fatalf("not empty: %v", c)
	}
	return disk
}

// TestACutLeavesADiskThatIsTakenAgain cuts the power while a disk is formatted:
// any of the sectors that were not synced may be on it.
func TestACutLeavesADiskThatIsTakenAgain(t *testing.T) {
	for _, fileSystem := range []string{"ext4", "xfs"} {
		t.Run(fileSystem, func(t *testing.T) {
			const size = 600 * mib
			r := rand.New(rand.NewPCG(3, 5))
			file, data := image(t, fileSystem, size, 512)
			disk := used(t, r, size)
			states := map[string]int{}
			target := &recorder{disk: disk}
			target.atSync = func() {
				for _, share := range []int{0, 3, 50, 97, 100} {
					for range 8 {
						left := newSparse(size)
						left.sectors = maps.Clone(disk.sectors)
						for _, p := range target.pending {
							if r.IntN(100) < share {
								left.sectors[p.rel/512] = (*[512]byte)(p.data)
							}
						}

						got, err := Decide(Facts{Disks: []Disk{{
							Device:     "/dev/sdb",
							Size:       size,
							SectorSize: 512,
							Content:    ReadContent(left, size),
						}}}, OfSize(size))
						if err != nil {
							t.Fatal(err)
						}

						states[string(got.Action)]++
					}
				}
			}

			if err := Format(target, FormatMark, file, data, 512); err != nil {
				t.Fatal(err)
			}
			if got := ReadContent(disk, size); got.FileSystem != fileSystem {
				t.Errorf("formatted: %v", got)
			}
			if len(states) != 3 {
				t.Errorf("states %v, want all of format, finish and use", states)
			}

			t.Logf("what the next start does: %v", states)
		})
	}
}

// TestFsckOfADiskFullOfOldData: what mkfs left a hole may be anything on the
// disk.
func TestFsckOfADiskFullOfOldData(t *testing.T) {
	for _, test := range []struct {
		fileSystem string
		sector     int
		fsck       []string
	}{
		{"ext4", 512, []string{"e2fsck", "-f", "-n"}},
		{"ext4", 4096, []string{"e2fsck", "-f", "-n"}},
		{"xfs", 512, []string{"xfs_repair", "-n"}},
		{"xfs", 4096, []string{"xfs_repair", "-n"}},
	} {
		t.Run(fmt.Sprint(test.fileSystem, " ", test.sector), func(t *testing.T) {
			const size = 600 * mib
			file, data := image(t, test.fileSystem, size, test.sector)
			path := filepath.Join(t.TempDir(), "disk")
			disk := create(t, path, size)
			junk := bytes.Repeat([]byte("junk"), int(mib/4))
			for at := int64(2 * mib); at < size-2*mib; at += mib {
				if _, err := disk.WriteAt(junk, at); err != nil {
					t.Fatal(err)
				}
			}

			if err := Format(diskFile{disk}, FormatMark, file, data, test.sector); err != nil {
				t.Fatal(err)
			}

			judge.Run(t, test.fsck[0], append(test.fsck[1:], path)...)
			if got := ReadContent(disk, size); got.FileSystem != test.fileSystem {
				t.Errorf("formatted: %v", got)
			}
		})
	}
}

// TestALargeDiskTakesLittleMemory: mkfs.xfs writes zeros to all of the log, and
// the file is in memory.
func TestALargeDiskTakesLittleMemory(t *testing.T) {
	const most = 300 * mib
	for _, size := range []int64{512 * gib, 1024 * gib, 8 * 1024 * gib} {
		file, _ := image(t, "xfs", size, 512)
		first := make([]byte, 512)
		if _, err := file.ReadAt(first, 0); err != nil {
			t.Fatal(err)
		}
		if log, ok := xfsLog(first); !ok || log.End-log.Start > most {
			t.Errorf("a disk of %d GiB: a log of %d MiB", size/gib, (log.End-log.Start)/mib)
		}
	}
}

type diskFile struct{ *os.File }

func (d diskFile) Zero(off, n int64) error {
	_, err := d.WriteAt(make([]byte, n), off)
	return err
}
