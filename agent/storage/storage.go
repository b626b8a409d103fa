// Package storage says which file systems of a node have little room left.
//
//	Observe --Usage--> Decide --> status.FileSystem, those with little room only
//
// A file system is nearly full below 5 % of its size, and below 1 GiB; the
// kubelet evicts pods and deletes images before, below 10 % (nodefs.available).
// It is full below 1 %, and below 16 MiB. The same holds for its inodes: below
// 5 % and 10,000, below 1 % and 100. To leave a level it takes a quarter more,
// so that a node at a limit does not change its mind each minute.
package storage

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
)

// Usage is how much of a file system is in use.
type Usage struct {
	// Path is a directory on it.
	Path string
	// Free of Size are left for programs, in bytes.
	Free, Size int64
	// FreeInodes of Inodes are left; Inodes is 0 for a file system without a
	// limit.
	FreeInodes, Inodes int64
	// Memory says that it is in memory.
	Memory bool
}

// State, Kubelet and Run are the directories that a node cannot do without:
// where its state is, where the kubelet has pods, and where the agent's status
// is.
const (
	State   = "var"
	Kubelet = "var/lib/kubelet"
	Run     = "run"
)

// Observe returns the usage of the node's file systems, each once. A directory
// that is absent is left out.
func Observe(root *os.Root) []Usage {
	var usages []Usage
	var seen []uint64
	for _, name := range []string{State, Kubelet, Run} {
		u, device, err := observe(root, name)
		if err != nil || slices.Contains(seen, device) {
			continue
		}
		seen = append(seen, device)
		usages = append(usages, u)
	}
	return usages
}

// observe returns the usage of the file system that has a directory, and its
// device number.
func observe(root *os.Root, name string) (u Usage, device uint64, err error) {
	dir, err := root.Open(name)
	if err != nil {
		return u, 0, err
	}
	defer dir.Close()

	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &fs); err != nil {
		return u, 0, fmt.Errorf("observe the room on /%s: %w", name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return u, 0, fmt.Errorf("observe the room on /%s: %w", name, err)
	}

	return Usage{
		Path:       "/" + name,
		Free:       int64(fs.Bavail) * fs.Bsize,
		Size:       int64(fs.Blocks) * fs.Bsize,
		FreeInodes: int64(fs.Ffree),
		Inodes:     int64(fs.Files),
		Memory:     fs.Type == unix.TMPFS_MAGIC,
	}, st.Dev, nil
}

// level is how little room there is.
type level int

const (
	enough level = iota
	low
	full
)

// limit is below which part of the whole, and below which amount, a level
// begins.
type limit struct{ part, most int64 }

var (
	byteLimits  = map[level]limit{low: {20, 1 << 30}, full: {100, 16 << 20}}
	inodeLimits = map[level]limit{low: {20, 10_000}, full: {100, 100}}
)

// levelOf returns the level of what is free of a whole that had the level
// before.
func levelOf(free, whole int64, before level, limits map[level]limit) level {
	for _, l := range []level{full, low} {
		below := min(whole/limits[l].part, limits[l].most)
		if before >= l {
			below += below / 4
		}
		if free < below {
			return l
		}
	}
	return enough
}

// Decide returns the file systems that have little room now. before is what it
// returned last. While nothing but a few bytes changes, it returns the same
// again.
func Decide(before []status.FileSystem, now []Usage) []status.FileSystem {
	var short []status.FileSystem
	for _, u := range now {
		at := slices.IndexFunc(before, func(f status.FileSystem) bool { return f.Path == u.Path })
		var last status.FileSystem
		if at >= 0 {
			last = before[at]
		}

		bytes := levelOf(u.Free, u.Size, levelBefore(last), byteLimits)
		inodes := levelOf(u.FreeInodes, u.Inodes, levelBefore(last), inodeLimits)
		if u.Inodes == 0 {
			inodes = enough
		}
		if max(bytes, inodes) == enough {
			continue
		}

		next := describe(u, bytes, inodes)
		if next.Full == last.Full && next.Hint == last.Hint && isNear(u, last) {
			next = last
		}
		short = append(short, next)
	}
	return short
}

// levelBefore returns the level that f was reported with.
func levelBefore(f status.FileSystem) level {
	switch {
	case f.Full:
		return full
	case f.Path != "":
		return low
	}
	return enough
}

// isNear reports whether less than a hundredth of a file system is used or
// freed since f was reported.
func isNear(u Usage, f status.FileSystem) bool {
	near := func(a, b, whole int64) bool { return max(a-b, b-a) <= whole/100 }
	return near(u.Free, f.Free, u.Size) && near(u.FreeInodes, f.FreeInodes, u.Inodes)
}

// describe returns what operators are told of a file system with little room.
func describe(u Usage, bytes, inodes level) status.FileSystem {
	f := status.FileSystem{
		Path:       u.Path,
		Free:       u.Free,
		Size:       u.Size,
		FreeInodes: u.FreeInodes,
		Inodes:     u.Inodes,
		Full:       max(bytes, inodes) == full,
		Code:       fault.DiskNearlyFull,
	}

	how := "nearly full"
	if f.Full {
		how = "full"
		f.Code = fault.DiskFull
	}
	name := u.Path
	switch {
	case u.Path == "/"+State && u.Memory:
		name = "the state in memory (/var)"
	case u.Path == "/"+State:
		name = "the state partition (/var)"
	case u.Path == "/"+Kubelet:
		name = "the data volume (/var/lib/kubelet)"
	}
	f.Problem = fmt.Sprintf(
		"%s is %s: %s of %s are free", name, how, mebibytes(u.Free), mebibytes(u.Size),
	)
	if u.Inodes > 0 {
		f.Problem += fmt.Sprintf(", and %d of %d inodes", u.FreeInodes, u.Inodes)
	}

	count := "du -xhd3 " + u.Path + " | sort -h | tail"
	if inodes > bytes {
		count = "du -xd3 --inodes " + u.Path + " | sort -n | tail"
	}
	f.Hint = "`" + count + "` shows what takes the room"
	switch u.Path {
	case "/" + State:
		f.Hint += ": images (/var/lib/containerd), pods and their logs (/var/lib/kubelet, " +
			"/var/log/pods), the journal (`journalctl --vacuum-size=100M`)"
	case "/" + Kubelet:
		f.Hint += ": pods with volumes of type emptyDir, see `kubectl get pods -o wide`"
	case "/" + Run:
		f.Hint += ", which is memory: until there is room, the status of the agent may be old"
	}
	return f
}

func mebibytes(n int64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
