// Package limits says which limits of the kernel that the agent shares with pods
// are used up.
//
//	Observe --Usage--> Decide --> status.Limit, those that are used up only
//
// A limit of which the kernel counts the use is used up from 95 % on, and has room
// again below 90 %, so that a node at a limit does not change its mind each minute.
// A limit that is not counted for all programs together, as those of inotify, is
// used up when the kernel refuses one more, and has room again when the kernel gives
// several.
//
// Root is not held to all of them: the kernel gives processes with CAP_SYS_ADMIN
// open files beyond fs.file-max (alloc_empty_file in fs/file_table.c). Pods are.
package limits

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Name is a limit.
type Name string

// The limits.
const (
	// Threads are all processes and threads of the machine, and PodThreads those of
	// all pods together.
	Threads    Name = "threads"
	PodThreads Name = "threads of pods"
	// Files are the open files of the machine, and OwnFiles those of this process.
	Files    Name = "open files"
	OwnFiles Name = "open files of the agent"
	// Instances and Watches are those of inotify, of root in pods, too.
	Instances Name = "instances of inotify"
	Watches   Name = "watches of inotify"
)

// hints say what an operator can do.
var hints = map[Name]string{
	Threads: "`ps -eLo cgroup= | sort | uniq -c | sort -n | tail` shows which pods have most; " +
		"limit them by podPidsLimit of the kubelet, or raise sysctl kernel.threads-max and " +
		"kernel.pid_max",
	PodThreads: "`ps -eLo cgroup= | sort | uniq -c | sort -n | tail` shows which pods have most; " +
		"limit them by podPidsLimit of the kubelet, or raise sysctl kernel.threads-max: all pods " +
		"have nine tenths of it",
	Files: "end the program that holds them, or raise sysctl fs.file-max",
	OwnFiles: "`ls -l /proc/$(systemctl show -P MainPID loam-agent)/fd` shows them; " +
		"`systemctl restart loam-agent` frees them",
	Instances: "raise the limit, sysctl fs.inotify.max_user_instances",
	Watches:   "raise the limit, sysctl fs.inotify.max_user_watches",
}

// Usage is how much of a limit is in use.
type Usage struct {
	Name Name
	// Used of Max are in use; Max is 0 if the kernel counts nothing.
	Used, Max int64
	// Refused says that the kernel has refused one more.
	Refused bool
}

// Observe returns the usage of each limit. root is the root directory, with /proc
// and /sys. before are the limits that were used up, and lacks are errors of those
// that still wait for what the kernel refused.
func Observe(root fs.FS, before []status.Limit, lacks ...error) []Usage {
	lack := errors.Join(lacks...)
	threads := countThreads(root)
	if threads.is(tryPercent) || isIn(before, Threads) || errors.Is(lack, unix.EAGAIN) {
		threads.Refused = !canFork()
	}
	usages := append(observeInotify(isIn(before, Instances), isIn(before, Watches)),
		observeOwnFiles(root), observeFiles(root), observePods(root), threads)

	errnos := map[Name]error{Instances: unix.EMFILE, Files: unix.ENFILE, Watches: unix.ENOSPC}
	for i, u := range usages {
		errno, ofErrors := errnos[u.Name]
		if ofErrors && errors.Is(lack, errno) {
			usages[i].Refused = true
		}
	}
	return usages
}

// tryPercent is from how many percent of the threads on Observe tries to have one
// more: that is not worth a process each minute on a node with few.
const tryPercent = 50

func isIn(used []status.Limit, name Name) bool {
	return slices.ContainsFunc(used, func(l status.Limit) bool { return l.Name == string(name) })
}

// spareInstances are how many instances of inotify the kernel must give before their
// limit has room again. Each must have a watch of each of the spareWatches.
const spareInstances = 8

var spareWatches = []string{"/", "/dev", "/etc", "/proc", "/run", "/sys", "/usr", "/var"}

// observeInotify tries to have one more instance, and a watch; or several if the
// limit was used up.
func observeInotify(noInstances, noWatches bool) []Usage {
	instances := Usage{Name: Instances}
	watches := Usage{Name: Watches}
	count := 1
	paths := spareWatches[:1]
	if noInstances || noWatches {
		count = spareInstances
		paths = spareWatches
	}

	for i := range count {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			instances.Refused = (i == 0 || noInstances) && errors.Is(err, unix.EMFILE) &&
				hasDescriptor()
			break
		}
		defer unix.Close(fd)

		for k, path := range paths {
			_, err := unix.InotifyAddWatch(fd, path, unix.IN_DELETE_SELF)
			if errors.Is(err, unix.ENOSPC) && (i+k == 0 || noWatches) {
				watches.Refused = true
			}
		}
	}
	return []Usage{instances, watches}
}

// hasDescriptor reports whether this process may have one more open file: it has
// the same error as an instance of inotify.
func hasDescriptor() bool {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

func observeOwnFiles(root fs.FS) Usage {
	u := Usage{Name: OwnFiles}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return u // Every kernel has the limit.
	}

	open, err := fs.ReadDir(root, "proc/self/fd")
	if err != nil {
		u.Refused = errors.Is(err, unix.EMFILE)
		return u
	}
	u.Used = int64(len(open))
	u.Max = int64(min(limit.Cur, 1<<62))
	return u
}

// observeFiles reads how many files are open, how many of these are free, and the
// limit (proc_sys_fs(5)).
func observeFiles(root fs.FS) Usage {
	u := Usage{Name: Files}
	text, _ := fs.ReadFile(root, "proc/sys/fs/file-nr") // Without it, nothing is known.
	fields := strings.Fields(string(text))
	if len(fields) == 3 {
		u.Used = number(fields[0]) - number(fields[1])
		u.Max = number(fields[2])
	}
	return u
}

// observePods reads how many threads the control group of all pods has, and may have
// (pids controller in Documentation/admin-guide/cgroup-v2.rst of the kernel). It has
// a limit by a drop-in of the image.
func observePods(root fs.FS) Usage {
	u := Usage{Name: PodThreads}
	read := func(name string) int64 {
		text, _ := fs.ReadFile(root, "sys/fs/cgroup/kubepods.slice/"+name) // Absent without pods.
		return number(strings.TrimSpace(string(text)))
	}
	u.Used = read("pids.current")
	u.Max = read("pids.max")
	return u
}

// ObserveThreads counts the threads, and tries to have one more process.
func ObserveThreads(root fs.FS) Usage {
	u := countThreads(root)
	u.Refused = !canFork()
	return u
}

func countThreads(root fs.FS) Usage {
	u := Usage{Name: Threads, Used: threads(root)}
	for _, name := range []string{"threads-max", "pid_max"} {
		text, err := fs.ReadFile(root, "proc/sys/kernel/"+name)
		most := number(strings.TrimSpace(string(text)))
		if err == nil && (u.Max == 0 || most < u.Max) {
			u.Max = most
		}
	}
	return u
}

// threads reads how many processes and threads there are (proc_loadavg(5)), 0 if
// that is not known. sysinfo(2) counts them in 16 bits.
func threads(root fs.FS) int64 {
	text, _ := fs.ReadFile(root, "proc/loadavg")
	for field := range strings.FieldsSeq(string(text)) {
		if _, all, is := strings.Cut(field, "/"); is {
			return number(all)
		}
	}
	return 0
}

// canFork reports whether the kernel gives this process a child. The child ends at
// once, as no directory can be run.
func canFork() bool {
	_, err := syscall.ForkExec("/", nil, nil)
	return !errors.Is(err, unix.EAGAIN)
}

// NoThreads returns an error if the kernel gives no more processes: units that are
// stopped could not be started again.
func NoThreads(threads Usage) error {
	if !threads.Refused {
		return nil
	}
	err := errors.New("the kernel gives no more processes, so no unit could be started")
	return hint.With(fault.With(err, fault.LimitReached), "%s", hints[Threads])
}

// Explains reports whether one of the limits that are used up is why err has
// happened.
func Explains(used []status.Limit, err error) bool {
	causes := map[Name]error{
		Threads:   unix.EAGAIN,
		Files:     unix.ENFILE,
		OwnFiles:  unix.EMFILE,
		Instances: unix.EMFILE,
		Watches:   unix.ENOSPC,
	}
	return slices.ContainsFunc(used, func(l status.Limit) bool {
		errno, is := causes[Name(l.Name)]
		return is && errors.Is(err, errno)
	})
}

// number returns a number of /proc, 0 for a text that is none.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// Decide returns the limits that are used up now. before is what it returned last.
func Decide(before []status.Limit, now []Usage) []status.Limit {
	var used []status.Limit
	for _, u := range now {
		at := slices.IndexFunc(before, func(l status.Limit) bool { return l.Name == string(u.Name) })
		switch {
		case !u.isUsedUp(at >= 0):
		case at >= 0:
			used = append(used, before[at])
		default:
			used = append(used, describe(u))
		}
	}
	return used
}

// isUsedUp reports whether a limit is used up, which it was before.
func (u Usage) isUsedUp(before bool) bool {
	percent := int64(95)
	if before {
		percent = 90
	}
	return u.Refused || u.is(percent)
}

// isCounted reports whether the count alone says that a limit is used up.
func (u Usage) isCounted() bool { return u.is(90) }

// is reports whether so many percent of a limit are in use.
func (u Usage) is(percent int64) bool {
	return u.Max > 0 && u.Used >= u.Max/100*percent+u.Max%100*percent/100
}

func describe(u Usage) status.Limit {
	var problem string
	switch {
	case u.Name == PodThreads:
		problem = fmt.Sprintf("all pods together have %d of the %d threads that they may have",
			u.Used, u.Max)
	case u.isCounted():
		problem = fmt.Sprintf("%d of %d %s are in use", u.Used, u.Max, u.Name)
	case u.Max > 0: // Another limit refuses, such as a control group's.
		problem = fmt.Sprintf("the kernel gives no more %s, although only %d of %d are in use",
			u.Name, u.Used, u.Max)
	default:
		problem = fmt.Sprintf("the kernel gives no more %s", u.Name)
	}
	return status.Limit{
		Name:    string(u.Name),
		Problem: problem,
		Hint:    hints[u.Name],
		Code:    fault.LimitReached,
	}
}
