package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/container"
	"github.com/loam-os/loam/test/judge"
)

// TestAgentAtLimitsOfTheKernel uses up each limit that the agent shares with pods
// while it runs under a real systemd, changes its configuration, and gives back
// what was used: the agent goes on, says which limit it is, and applies the change.
func TestAgentAtLimitsOfTheKernel(t *testing.T) { container.Run(t, atLimits) }

// limited is an agent whose limits are used up.
type limited struct {
	*container.Container
	root    *os.Root
	systemd *unit.Systemd
	// serial counts the documents.
	serial int
	// full says that no more commands can be run.
	full bool
	// most is how many processes there could be before.
	most   string
	filler *filler
}

func atLimits(t *testing.T, c *container.Container) {
	n := &limited{Container: c, root: c.OpenRoot(t)}
	n.sh(t, "mount -t tmpfs -o size=64m,nr_inodes=4000 tmpfs /var && "+
		"mkdir -p /var/lib/loam /var/srv /var/tmp")
	install(t, n.root)
	write(t, n.root, "usr/lib/systemd/system/loam-agent.service",
		agentUnit+"StandardError=append:/srv/log\n")
	write(t, n.root, "etc/credstore/loam.machine",
		strings.Replace(machineYAML, "/srv/config.yaml", "/run/config.yaml", 1))
	write(t, n.root, "srv/active", "")
	n.systemd = c.Connect(t)
	if err := n.systemd.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() && !n.full {
			t.Log(n.Command(t, "sh", "-c", "grep -v -e github -e /agent/ /srv/log | tail -n 100"))
		}
	}()
	if err := n.systemd.Start(t.Context(), "loam-agent.service"); err != nil {
		t.Fatal(err)
	}
	n.change(t)
	n.await(t, "the first document", n.isApplied)
	first := n.sh(t, "systemctl show -P MainPID loam-agent")

	for _, limit := range n.limits(t) {
		if !t.Run(limit.name, func(t *testing.T) { n.goesOn(t, limit) }) {
			return // What is used up is in the way of the next one.
		}
	}

	if now := n.sh(t, "systemctl show -P MainPID loam-agent"); now != first {
		t.Errorf("the agent was process %s, and is %s", first, now)
	}
}

// kernelLimit is a limit of the kernel.
type kernelLimit struct {
	name string
	// use uses it up, and give gives back.
	use, give func(t *testing.T)
	// says returns what the status says of it; "" if nothing.
	says func(s status.Status) string
	// want is in what it says.
	want string
}

func (n *limited) goesOn(t *testing.T, l kernelLimit) {
	before := n.status(t)
	if text := l.says(before); text != "" {
		t.Fatalf("before, the status says %s", text)
	}
	l.use(t)
	n.change(t)
	n.await(t, "the status says so", func(s status.Status) error {
		if text := l.says(s); !strings.Contains(text, l.want) {
			return fmt.Errorf("it says %q, want %q", text, l.want)
		}
		return nil
	})
	t.Log(n.status(t).Table(status.View{Width: 79}))

	l.give(t)
	n.await(t, "the change is applied", n.isApplied)
	n.await(t, "the status says nothing", func(s status.Status) error {
		if text := l.says(s); text != "" {
			return fmt.Errorf("it says %q", text)
		}
		return nil
	})
}

// ofLimit returns what a status says of a limit.
func ofLimit(name string) func(status.Status) string {
	return func(s status.Status) string {
		for _, l := range s.Limits {
			if l.Name == name && l.Code == fault.LimitReached {
				return l.Problem + "; hint: " + l.Hint
			}
		}
		return ""
	}
}

func (n *limited) limits(t *testing.T) []kernelLimit {
	pid := n.pid(t)
	var files unix.Rlimit

	return []kernelLimit{
		{
			name: "open files",
			use: func(t *testing.T) {
				if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &files); err != nil {
					t.Fatal(err)
				}
				few := unix.Rlimit{Cur: n.openFiles(t, pid), Max: files.Max}
				if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &few, nil); err != nil {
					t.Fatal(err)
				}
			},
			give: func(t *testing.T) {
				if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &files, nil); err != nil {
					t.Fatal(err)
				}
			},
			says: ofLimit("open files of the agent"),
			want: "systemctl restart loam-agent",
		},
		{
			name: "inodes of the state partition",
			use:  n.fillInodes,
			give: func(t *testing.T) { n.sh(t, "rm -r /var/fill") },
			says: func(s status.Status) string {
				for _, f := range s.Storage {
					if f.Path == "/var" && f.Full && f.Code == fault.DiskFull {
						return f.Problem + "; hint: " + f.Hint
					}
				}
				return ""
			},
			want: "and 0 of 4000 inodes; hint: `du -xd3 --inodes /var",
		},
		{
			name: "threads",
			use:  n.fillThreads,
			give: n.freeThreads,
			says: ofLimit("threads"),
			want: "podPidsLimit",
		},
	}
}

// fillInodes leaves no inode on the state partition.
func (n *limited) fillInodes(t *testing.T) {
	if err := n.root.Mkdir("var/fill", 0o755); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		err := n.root.WriteFile(fmt.Sprint("var/fill/", i), nil, 0o644)
		if errors.Is(err, unix.ENOSPC) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// fillThreads leaves no process ID in the container, whose limit it lowers. Linux
// has one for each PID namespace since 6.14 (kernel/pid_namespace.c).
func (n *limited) fillThreads(t *testing.T) {
	if major, minor := kernelVersion(t); major < 6 || (major == 6 && minor < 14) {
		judge.Lacking(t, "needs Linux 6.14: the limit would be the whole machine's")
	}
	limits.KeepThreads(limits.SpareThreads) // The test is in the container's namespace, too.
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		t.Fatal(err)
	}
	n.most = n.sh(t, "cat /proc/sys/kernel/pid_max")
	n.sh(t, fmt.Sprintf("echo %d >/proc/sys/kernel/pid_max", info.Procs+200))
	n.full = true
	n.filler = fill(t)
	eventually(t, "no more processes", func() bool { return n.filler.idle() > time.Second })
}

// freeThreads ends what fills the container, and raises its limit again: the kernel
// counts the processes of the whole machine, and whatever runs there may begin more
// of them than the limit of the container.
func (n *limited) freeThreads(t *testing.T) {
	n.full = false
	n.filler.end()
	eventually(t, "processes again", func() bool { return exec.Command("true").Run() == nil })
	n.sh(t, "echo "+strings.TrimSpace(n.most)+" >/proc/sys/kernel/pid_max")
}

// filler has as many processes as the kernel gives. Whatever ends beside them, it
// has one more within a millisecond: a shell that does so ends itself when the
// kernel gives it none, and so leaves one for others.
type filler struct {
	stop, ended chan struct{}
	// last is when it got the last one.
	last atomic.Pointer[time.Time]
}

func fill(t *testing.T) *filler {
	f := &filler{stop: make(chan struct{}), ended: make(chan struct{})}
	f.got()
	go func() {
		defer close(f.ended)
		if err := f.run(); err != nil {
			t.Errorf("fill the container: %v", err)
		}
	}()
	return f
}

func (f *filler) got() {
	now := time.Now()
	f.last.Store(&now)
}

// idle returns how long the kernel has given no process.
func (f *filler) idle() time.Duration { return time.Since(*f.last.Load()) }

func (f *filler) run() error {
	var all []*exec.Cmd
	defer func() {
		for _, one := range all {
			_ = one.Process.Kill()
			_ = one.Wait() // It was killed.
		}
	}()

	for {
		one := exec.Command("sleep", "infinity")
		err := one.Start()
		switch {
		case err == nil:
			all = append(all, one)
			f.got()
		case !errors.Is(err, unix.EAGAIN):
			return err
		}

		select {
		case <-f.stop:
			return nil
		case <-time.After(time.Millisecond):
		}
	}
}

func (f *filler) end() {
	close(f.stop)
	<-f.ended
}

func kernelVersion(t *testing.T) (major, minor int) {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(text), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	return major, minor
}

// pid returns the agent's process.
func (n *limited) pid(t *testing.T) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(n.sh(t, "systemctl show -P MainPID loam-agent")))
	if err != nil || pid == 0 {
		t.Fatalf("the agent does not run: %d, %v", pid, err)
	}
	return pid
}

// openFiles returns how many files the agent has open, which is the number of the
// next one but for gaps.
func (n *limited) openFiles(t *testing.T, pid int) uint64 {
	t.Helper()
	open, err := fs.ReadDir(n.root.FS(), fmt.Sprintf("proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return uint64(len(open))
}

// sh runs a command in the container, which must not fail.
func (n *limited) sh(t *testing.T, line string) string {
	t.Helper()
	out := n.Command(t, "sh", "-c", line)
	if strings.Contains(out, "exit status") {
		t.Fatalf("%s: %s", line, out)
	}
	return out
}

// change gives the node another document, with a file in a directory of its own.
func (n *limited) change(t *testing.T) {
	t.Helper()
	n.serial++
	text := strings.ReplaceAll(document1, "/etc/app/", fmt.Sprintf("/etc/app-%d/", n.serial))
	write(t, n.root, "run/next.yaml", text)
	if err := n.root.Rename("run/next.yaml", "run/config.yaml"); err != nil {
		t.Fatal(err)
	}
}

// isApplied reports whether the node runs the last document, and says so.
func (n *limited) isApplied(s status.Status) error {
	_, err := n.root.Lstat(fmt.Sprintf("etc/app-%d/app.conf", n.serial))
	if err == nil && (s.Phase != status.Applied || s.Error != nil) {
		err = errors.New("not applied")
	}
	if err != nil {
		return fmt.Errorf("%w:\n%s", err, s.Table(status.View{Width: 79}))
	}
	return nil
}

// status returns what the agent has published last; the zero Status before that.
func (n *limited) status(t *testing.T) status.Status {
	t.Helper()
	text, err := n.root.ReadFile(strings.TrimPrefix(status.Path, "/"))
	if errors.Is(err, fs.ErrNotExist) {
		return status.Status{}
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := status.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// await waits until the status is as it should be.
func (n *limited) await(t *testing.T, what string, holds func(status.Status) error) {
	t.Helper()
	var last error
	defer func() {
		if t.Failed() {
			t.Logf("%s: %v", what, last)
		}
	}()
	eventually(t, what, func() bool {
		last = holds(n.status(t))
		return last == nil
	})
}
