package recorded

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// usage is what a process has used so far.
type usage struct {
	cpu time.Duration

	// wakeups is how often one of its threads has slept and was woken: the
	// voluntary context switches of all (proc_pid_status(5)). Go's threads
	// stay, so none are lost.
	wakeups int64

	// switches are all context switches, voluntary or not.
	switches int64

	// resident is RSS in bytes, anonymous the part of it that is no file's.
	resident, anonymous int64

	// written is what it had the kernel write to a disk, in bytes
	// (proc_pid_io(5), write_bytes); sockets and tmpfs are not in it.
	written int64
}

func usageOf(t testing.TB, pid int) usage {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d", pid)
	var spent unix.Timespec

	// The clock of another process; CPUCLOCK_SCHED of the kernel's
	// posix-timers.h.
	if err := unix.ClockGettime(int32(^pid<<3|2), &spent); err != nil {
		t.Fatalf("CPU time of %d: %v", pid, err)
	}

	u := usage{
		cpu:       time.Duration(spent.Nano()),
		written:   figure(t, proc+"/io", "write_bytes:"),
		resident:  1024 * figure(t, proc+"/status", "VmRSS:"),
		anonymous: 1024 * figure(t, proc+"/status", "RssAnon:"),
	}

	threads, err := filepath.Glob(proc + "/task/*/status")
	if err != nil || len(threads) == 0 {
		t.Fatalf("threads of %d: %v", pid, err)
	}

	for _, name := range threads {
		voluntary := figure(t, name, "voluntary_ctxt_switches:")
		u.wakeups += voluntary
		u.switches += voluntary + figure(t, name, "nonvoluntary_ctxt_switches:")
	}

	return u
}

// asleep reports a thread of a process that runs, or waits for a disk (proc_pid_stat(5),
// state): it may be within a system call whose effect is already seen.
func asleep(pid int) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err == nil && len(threads) == 0 {
		err = fmt.Errorf("no process %d", pid)
	}
	if err != nil {
		return err
	}

	for _, name := range threads {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // It has ended.
		}
		if err != nil {
			return err
		}
		// Its name, which is in parentheses, may have any byte.
		_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
		if !strings.HasPrefix(rest, "S") {
			return fmt.Errorf("%s: state %.1s", name, rest)
		}
	}
	return nil
}

// figure is the number behind a key of a file in /proc.
func figure(t testing.TB, file, key string) int64 {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == key {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				t.Fatalf("%s: %s %v", file, key, err)
			}
			return n
		}
	}

	t.Fatalf("%s: no %s", file, key)
	return 0
}

// snapshot is every path beneath dir but those in run, which a node has in
// memory: its inode, size and times. Whatever is written, renamed or
// made and removed changes it.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	seen := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		var s unix.Stat_t
		if err == nil {
			err = unix.Lstat(name, &s)
		}

		if err != nil {
			return err
		}
		if name == filepath.Join(dir, "run") {
			return fs.SkipDir
		}

		seen[name] = fmt.Sprintf("inode %d, %d bytes, modified %d, changed %d",
			s.Ino, s.Size, s.Mtim.Nano(), s.Ctim.Nano())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	return seen
}
