// Package disk says what the disk of etcd allows: a cluster, and which timing.
//
//	directory ---Measure---> p99 of a sync ---Check-----> nil, or a refusal with a hint
//	                                       ---TimingOf--> heartbeat, election timeout
//
// etcd answers a write when its log is synced to the disk. On a slow disk, the
// API server runs into its timeouts, and the programs that hold leases lose them.
// So a disk is measured before it has a cluster. What was measured is recorded then
// (package plane), and the flags of etcd follow from that for good.
package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// SlowFsync is the 99th percentile of the time of a sync from which on a disk is
// too slow. It is the interval of etcd's heartbeats, and ten times what etcd's own
// documents ask for (https://etcd.io/docs/v3.6/faq).
const SlowFsync = 100 * time.Millisecond

const (
	// A write of writeSize bytes is about what etcd syncs for a small object. With
	// 100 writes, one of them may be slower than the 99th percentile.
	writes    = 100
	writeSize = 2 << 10

	// maxTime ends a measurement early. A disk that has not synced 100 writes by
	// then takes 50 ms for each, and the slowest one counts.
	maxTime = 5 * time.Second

	// tries is how often a slow disk is measured. A machine that starts reads and
	// writes much else: its disk may be slow now, and is not the next time.
	tries = 3
)

// Probe measures the 99th percentile of the time that the file system of a
// directory takes to sync a small write.
type Probe func(ctx context.Context, directory string) (time.Duration, error)

// Admit measures the file system of a directory, again if it is slow, and returns
// the best 99th percentile. The error of [Check] says that it is too slow.
func Admit(ctx context.Context, probe Probe, directory string) (time.Duration, error) {
	var best time.Duration
	for i := range tries {
		p99, err := probe(ctx, directory)
		if err != nil {
			return 0, fmt.Errorf("measure the disk of %s: %w", directory, err)
		}
		if i == 0 || p99 < best {
			best = p99
		}
		if best < SlowFsync {
			break
		}
	}
	return best, Check(directory, best)
}

// Check refuses a disk with that 99th percentile.
func Check(directory string, p99 time.Duration) error {
	if p99 < SlowFsync {
		return nil
	}
	problem := fmt.Errorf(
		"the disk of %s is too slow for etcd: a sync takes up to %s, want less than %s",
		directory, FormatDuration(p99), FormatDuration(SlowFsync),
	)
	return document.At("cluster.allowSlowDisk",
		hint.With(fault.With(problem, fault.DiskTooSlow),
			"take a faster disk, or set cluster.allowSlowDisk: true in machine.yaml; "+
				"then restart the machine"))
}

// Measure implements [Probe]. The file that it writes has no name, so that nothing
// is left of it, also after a power cut.
func Measure(ctx context.Context, directory string) (time.Duration, error) {
	file, err := unnamed(directory)
	if err != nil {
		return 0, err
	}
	defer file.Close()

	// etcd reserves the room for its log before it writes, too. Not all file
	// systems can.
	err = unix.Fallocate(int(file.Fd()), 0, 0, writes*writeSize)
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return 0, &fs.PathError{Op: "fallocate", Path: directory, Err: err}
	}
	if err := file.Sync(); err != nil {
		return 0, err
	}
	return measure(ctx, file)
}

// unnamed opens a file without a name for writing.
func unnamed(directory string) (*os.File, error) {
	const flags = unix.O_TMPFILE | unix.O_WRONLY | unix.O_CLOEXEC
	fd, err := unix.Open(directory, flags, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "open a file without a name in", Path: directory, Err: err}
	}
	return os.NewFile(uintptr(fd), directory), nil
}

func measure(ctx context.Context, file *os.File) (time.Duration, error) {
	block := make([]byte, writeSize)
	for i := range block {
		block[i] = byte(i) // A file system may leave out zeros.
	}

	begin := time.Now()
	var times []time.Duration
	for range writes {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		start := time.Now()
		if start.Sub(begin) > maxTime {
			break
		}

		if _, err := file.Write(block); err != nil {
			return 0, err
		}
		if err := unix.Fdatasync(int(file.Fd())); err != nil {
			return 0, &fs.PathError{Op: "fdatasync", Path: file.Name(), Err: err}
		}
		times = append(times, time.Since(start))
	}
	return percentile(times), nil
}

// percentile returns the 99th percentile of at least one time, by the nearest
// rank.
func percentile(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	rank := (len(sorted)*99 + 99) / 100
	return sorted[rank-1]
}

// FormatDuration returns the time of a sync in milliseconds.
func FormatDuration(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 10 {
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}
