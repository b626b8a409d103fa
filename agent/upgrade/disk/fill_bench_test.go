package disk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/image/bundle"
)

// generated is content that is nowhere but in its seed, and its own pack.
type generated int64

func (g generated) chunk(i int64) []byte {
	b := make([]byte, bundle.ChunkSize)
	for at := range len(b) / sha256.Size {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %d", g, i, at/16))
		copy(b[at*sha256.Size:], sum[:])
	}
	return b
}

// index is what the content is to be, of so many chunks.
func (g generated) index(chunks int64) bundle.Part {
	p := bundle.Part{Size: chunks * bundle.ChunkSize}
	for i := range chunks {
		p.Chunks = append(p.Chunks,
			bundle.Chunk{
				SHA256: sha256.Sum256(g.chunk(i)),
				At:     i * bundle.ChunkSize,
				Len:    bundle.ChunkSize,
			})
	}
	return p
}

// onDisk is a pack in a file.
type onDisk struct{ *os.File }

func (f onDisk) Range(_ context.Context, off, n int64) (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(f, off, n)), nil
}

// BenchmarkFillSlot writes a slot in which every chunk is different, known or to
// be read, and the same with dd(1), in turns on one disk; a round is both.
func BenchmarkFillSlot(b *testing.B) {
	const chunks = 4096
	dir := b.TempDir()
	slot := filepath.Join(dir, "slot")
	other := filepath.Join(dir, "dd")
	packName := filepath.Join(dir, "pack")
	pack, err := os.Create(packName)
	if err != nil {
		b.Fatal(err)
	}
	defer pack.Close()

	for i := range int64(chunks) {
		if _, err := pack.Write(generated(1).chunk(i)); err != nil {
			b.Fatal(err)
		}
	}

	part := generated(1).index(chunks)
	zeros := bytes.Repeat([]byte{1}, 1<<20)
	for _, n := range []string{slot, other} {
		f, err := os.Create(n)
		for i := range part.Size >> 20 {
			if _, writeErr := f.WriteAt(zeros, i<<20); writeErr != nil {
				err = errors.Join(err, writeErr)
			}
		}
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			b.Fatal(err)
		}
	}

	for name, known := range map[string][]bundle.Digest{
		"known":   make([]bundle.Digest, chunks),
		"unknown": nil,
	} {
		b.Run(name, func(b *testing.B) {
			var ratios, speeds []float64
			for round := range b.N {
				// The slot has another content each time.
				spoil(b, slot, part.Size, byte(round+2))
				d, err := openDirect(slot, unix.O_RDWR, 4096)
				if err != nil {
					b.Fatal(err)
				}

				job := fill.Job{
					Target:  d,
					Part:    part,
					Known:   known,
					Sources: fill.Sources{Pack: onDisk{pack}},
				}

				begin := time.Now()
				if err := job.Run(b.Context()); err != nil {
					b.Fatal(err)
				}

				took := time.Since(begin)
				if job.Stats.Written != part.Size {
					b.Fatalf("%+v", job.Stats)
				}
				if err := d.Close(); err != nil {
					b.Fatal(err)
				}

				begin = time.Now()
				if out, err := exec.Command("dd", "if="+packName, "of="+other, "bs=4M",
					"oflag=direct", "conv=fsync,notrunc").CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}

				ratios = append(ratios, took.Seconds()/time.Since(begin).Seconds())
				speeds = append(speeds, float64(part.Size)/1e6/took.Seconds())
			}

			slices.Sort(ratios)
			slices.Sort(speeds)
			b.ReportMetric(ratios[len(ratios)/2], "times-dd")
			b.ReportMetric(speeds[len(speeds)/2], "MB/s")
			b.ReportMetric(peak(b), "peak-MiB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// spoil makes every chunk of a file another, past the page cache.
func spoil(b *testing.B, name string, size int64, with byte) {
	b.Helper()
	d, err := openDirect(name, unix.O_RDWR, 4096)
	if err != nil {
		b.Fatal(err)
	}

	block := bytes.Repeat([]byte{with}, 4096)
	for off := int64(0); off < size; off += bundle.ChunkSize {
		if _, err := d.WriteAt(block, off); err != nil {
			b.Fatal(err)
		}
	}

	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		b.Fatal(err)
	}

	runtime.GC()
}

// peak is the most memory that this process had at once, in MiB.
func peak(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}

	_, after, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		b.Fatal(err)
	}

	return float64(kib) / 1024
}
