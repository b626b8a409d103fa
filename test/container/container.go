// Package container runs the systemd of a root tree as process 1 of a
// container, for tests of what the agent asks of systemd. It takes a third of
// a second and needs root and Linux namespaces, nothing else.
//
// make pairs walks through random configurations here
// (test/crash/systemdmodel) and compares what became of every unit with the
// plan, and with an oracle that knows nothing of the engine.
package container

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/judge"
)

//go:embed start.sh
var script string

// TreeVariable names a root tree with systemd in it: the image's, or one made
// by mmdebstrap. Nothing is written to it.
const TreeVariable = "LOAM_ROOT_TREE"

// insideVariable is the container's process 1, for the part of a test that
// runs inside.
const insideVariable = "LOAM_CONTAINER_PID"

// Container is a running systemd.
type Container struct {
	// Root is the container's root directory as the test sees it.
	Root string
	// Socket is systemd's private D-Bus socket.
	Socket string
	pid    int
}

// Run starts systemd from the tree in LOAM_ROOT_TREE, waits until it has
// reached basic.target and runs test, which must be all of the test t: a
// top-level test or a subtest. What the tests above t do is done inside, too. The
// container ends with t. Without a tree, or without root, the test is skipped, or
// fails where CI is set.
//
// test runs in a second process of the test binary, in the container's PID
// namespace but with the files of the host: systemd turns away a peer whose
// process it cannot see.
func Run(t *testing.T, test func(t *testing.T, c *Container)) {
	t.Helper()
	if pid, err := strconv.Atoi(os.Getenv(insideVariable)); err == nil {
		root := fmt.Sprintf("/proc/%d/root", pid)
		test(t, &Container{Root: root, Socket: root + "/run/systemd/private", pid: pid})
		return
	}

	tree := os.Getenv(TreeVariable)
	if tree == "" || os.Getuid() != 0 {
		judge.Lacking(t, "needs root, and "+TreeVariable+" to name a root tree with systemd")
	}

	pid := start(t, tree)
	cmd := exec.Command("nsenter", "-t", strconv.Itoa(pid), "-p", "--", os.Args[0],
		"-test.run="+only(t.Name()), "-test.v", "-test.count=1",
		"-test.timeout="+limit(t).String(),
		fmt.Sprintf("-test.short=%v", testing.Short()))
	cmd.Env = append(os.Environ(), insideVariable+"="+strconv.Itoa(pid))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)

	if err != nil {
		t.Fatalf("in the container: %v", err)
	}
}

// only returns the pattern for go test -run that matches one test or subtest.
func only(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// limit is how long the part inside may take: a little less than is left, so
// that it is the part inside that says where it hangs.
func limit(t *testing.T) time.Duration {
	deadline, ok := t.Deadline()
	if !ok {
		return 0
	}
	return time.Until(deadline) * 9 / 10
}

// start starts a container and returns the id of its process 1.
func start(t *testing.T, tree string) int {
	t.Helper()
	scratch := shortDir(t)
	notify := shortDir(t)
	ready := listen(t, filepath.Join(notify, "socket"))
	var output bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", script, "start.sh", tree, scratch, notify)
	cmd.Stdout = &output
	cmd.Stderr = &output

	// The container goes with the thread that starts it, even if the test is
	// killed; the thread goes with the test.
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS |
			syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		// After the child is in its cgroup, so that this is the root it sees.
		Unshareflags: syscall.CLONE_NEWCGROUP,
		UseCgroupFD:  true,
		CgroupFD:     int(ownCgroup(t).Fd()),
		Setpgid:      true,
	}

	if err := cmd.Start(); err != nil {
		t.Fatalf("start a container: %v", err)
	}

	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()

	t.Cleanup(func() {
		// The kernel ends all of the PID namespace with its process 1.
		_ = cmd.Process.Kill()
		<-exited
	})

	if err := awaitReady(ready, exited); err != nil {
		exited <- err
		t.Fatalf("start systemd in a container: %v\n%s", err, output.String())
	}

	// systemd notifies of each reload, too, and waits for a reader once ten
	// notices are there.
	if err := ready.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, ready) }() // The cleanup closes it.

	return cmd.Process.Pid
}

// shortDir is t.TempDir without the name of the test, which may have commas, as
// mount options do, and be too long for the path of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "loam-container-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// ownCgroup makes a cgroup that goes with the test. Containers in one cgroup
// would be in each other's way: a unit of a name has one cgroup.
func ownCgroup(t *testing.T) *os.File {
	t.Helper()
	mounted := "/sys/fs/cgroup/unified" // beside cgroup v1
	if _, err := os.Stat(mounted); err != nil {
		mounted = "/sys/fs/cgroup"
	}

	dir, err := os.MkdirTemp(mounted, "loam-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeCgroup(t, dir) })

	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })

	return f
}

// removeCgroup removes a cgroup and those in it; their files cannot be removed
// and go with them.
func removeCgroup(t *testing.T, dir string) {
	inside, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, entry := range inside {
		if entry.IsDir() {
			removeCgroup(t, filepath.Join(dir, entry.Name()))
		}
	}
	if err := syscall.Rmdir(dir); err != nil {
		t.Errorf("remove cgroup %s: %v", dir, err)
	}
}

// Command runs a command in the container and returns what it prints. A
// failing command's exit status is part of the text.
func (c *Container) Command(t testing.TB, args ...string) string {
	t.Helper()
	enter := append(
		[]string{
			"-t", strconv.Itoa(c.pid), "-m", "-u", "-n", "-C", "-i", "-r", "-w", "--",
		}, args...,
	)

	out, err := exec.Command("nsenter", enter...).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s%v", out, err)
	}

	return string(out)
}

// OpenRoot opens the container's root directory.
func (c *Container) OpenRoot(t *testing.T) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(c.Root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// OpenImage opens the root tree that the container was started from.
func (c *Container) OpenImage(t *testing.T) *os.Root {
	t.Helper()
	image, err := os.OpenRoot(os.Getenv(TreeVariable))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { image.Close() })
	return image
}

// Connect connects to the container's systemd until the end of the test.
func (c *Container) Connect(t *testing.T) *unit.Systemd {
	t.Helper()
	systemd, err := unit.Connect(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(systemd.Close)
	return systemd
}

func listen(t *testing.T, socket string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// awaitReady waits for systemd's READY=1 (sd_notify(3)), which a service
// manager in a container sends when its start job is done.
func awaitReady(conn *net.UnixConn, exited <-chan error) error {
	result := make(chan error, 1)
	go func() {
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute)) // a hung container, not a slow one
		buffer := make([]byte, 4096)
		for {
			n, err := conn.Read(buffer)
			if err != nil || bytes.Contains(buffer[:n], []byte("READY=1")) {
				result <- err
				return
			}
		}
	}()

	select {
	case err := <-result:
		return err
	case err := <-exited:
		return fmt.Errorf("it ended: %w", err)
	}
}
