package install

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/block"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/test/judge"
)

// BenchmarkInstall installs a build from its packed image, and has dd(1) write
// the same image, in turns on one disk; a round is both. It reports the speed
// of writing, to dd's, holes left out; and the time of all of it to dd's: to
// unpack into memory, to write, and to read back.
func BenchmarkInstall(b *testing.B) {
	build := judge.Dir(b, "LOAM_BUILD")
	text, err := os.ReadFile(filepath.Join(build, "manifest.json"))
	if err != nil {
		b.Fatal(err)
	}

	m, err := manifest.Decode(text)
	if err != nil {
		b.Fatal(err)
	}

	raw, _ := m.Output(".raw")
	zst, _ := m.Output(".raw.zst")
	image := filepath.Join(build, raw.Name)
	packed := filepath.Join(build, zst.Name)
	size := raw.Size
	dir := b.TempDir()
	disk := filepath.Join(dir, "disk")
	other := filepath.Join(dir, "dd")
	chosen := Choice{Disk: Candidate{Disk: volume.Disk{Device: disk, Size: size, SectorSize: 512}}}

	b.Run("build", func(b *testing.B) {
		var speeds, times []float64
		for range b.N {
			empty(b, disk, size)
			begin := time.Now()
			wrote, bytes := install(b, chosen, packed, zst.SHA256)
			all := time.Since(begin)
			empty(b, other, size)
			begin = time.Now()

			out, err := exec.Command("dd", "if="+image, "of="+other, "bs=4M", "oflag=direct",
				"conv=fsync,notrunc").CombinedOutput()
			if err != nil {
				b.Fatalf("%v: %s", err, out)
			}

			dd := time.Since(begin).Seconds()
			speeds = append(speeds, wrote.Seconds()/float64(bytes)/(dd/float64(size)))
			times = append(times, all.Seconds()/dd)
		}

		slices.Sort(speeds)
		slices.Sort(times)
		b.ReportMetric(speeds[len(speeds)/2], "write-times-dd")
		b.ReportMetric(times[len(times)/2], "all-times-dd")
		b.ReportMetric(0, "ns/op")
	})
}

// install does what a node does, and returns how long it wrote how many bytes.
func install(b *testing.B, c Choice, packed, sum string) (wrote time.Duration, bytes int64) {
	from, err := os.Open(packed)
	if err != nil {
		b.Fatal(err)
	}
	defer from.Close()

	memory, err := unix.MemfdCreate("image", unix.MFD_CLOEXEC)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(memory)

	file := fmt.Sprintf("/proc/self/fd/%d", memory)
	size, err := Unpack(file, from, sum)
	if err != nil {
		b.Fatal(err)
	}

	image, err := os.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer image.Close()

	open := func(d volume.Disk) (block.Handle, error) {
		return os.OpenFile(d.Device, os.O_RDWR|unix.O_DIRECT, 0)
	}

	begin := time.Now()
	err = Write(
		b.Context(),
		open,
		c,
		Claim{},
		System{
			Image:    image,
			Size:     size,
			Identity: identity(b),
			Machine:  []byte("kind: Machine\n"),
		},
		func(doing string, _, all int64) {
			if doing == "verify" && wrote == 0 {
				wrote = time.Since(begin)
				bytes = all
			}
		},
	)
	if err != nil {
		b.Fatal(err)
	}

	return wrote, bytes
}

// empty makes a file whose blocks are all there, and zero.
func empty(b *testing.B, file string, size int64) {
	b.Helper()
	f, err := os.Create(file)
	if err != nil {
		b.Fatal(err)
	}
	err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, size), f.Sync(), f.Close())
	if err != nil {
		b.Fatal(err)
	}
}
