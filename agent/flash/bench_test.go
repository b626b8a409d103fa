package flash

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/partitions/gpt"
)

// BenchmarkFlash writes 256 MiB of an image, and the same with dd(1), in turns
// on one disk; a round is both. Reading back is not in it.
func BenchmarkFlash(b *testing.B) {
	const size = 256 * mib
	dir := b.TempDir()
	image := filepath.Join(dir, "image")
	disk := filepath.Join(dir, "disk")
	other := filepath.Join(dir, "dd")

	noise := make([]byte, mib)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(noise)

	for _, name := range []string{image, disk, other} {
		f, err := os.Create(name)
		for at := int64(0); at < size; at += mib {
			_, writeErr := f.WriteAt(noise, at)
			err = errors.Join(err, writeErr)
		}
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			b.Fatal(err)
		}
	}

	from, err := os.Open(image)
	if err != nil {
		b.Fatal(err)
	}
	defer from.Close()

	im := Image{Table: gpt.Table{DiskSize: size}, Extents: []Extent{{0, size}}}
	b.Run("noise", func(b *testing.B) {
		var ratios, speeds []float64
		for range b.N {
			to, err := os.OpenFile(disk, os.O_RDWR|unix.O_DIRECT, 0)
			if err != nil {
				b.Fatal(err)
			}

			begin := time.Now()
			took := time.Duration(0)
			err = Write(b.Context(), to, size, from, im, func(doing string, _, _ int64) {
				if doing == "verify" && took == 0 {
					took = time.Since(begin)
				}
			})
			if err := errors.Join(err, to.Close()); err != nil {
				b.Fatal(err)
			}

			begin = time.Now()
			if out, err := exec.Command("dd", "if="+image, "of="+other, "bs=4M", "oflag=direct",
				"conv=fsync,notrunc").CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}

			ratios = append(ratios, took.Seconds()/time.Since(begin).Seconds())
			speeds = append(speeds, size/1e6/took.Seconds())
		}

		slices.Sort(ratios)
		slices.Sort(speeds)
		b.ReportMetric(ratios[len(ratios)/2], "times-dd")
		b.ReportMetric(speeds[len(speeds)/2], "MB/s")
		b.ReportMetric(0, "ns/op")
	})
}
