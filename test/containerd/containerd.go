// Package containerd runs the real containerd of the image on this host, with its
// content store and no more, for tests of what is pulled through it.
package containerd

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/loam-os/loam/test/child"
	"github.com/loam-os/loam/test/judge"
)

// Containerd is the real containerd of the image, run on this host.
type Containerd struct {
	Dir    string // short, since socket paths are limited
	cmd    *exec.Cmd
	exited chan struct{}
}

// Socket is the path of its socket.
func (c *Containerd) Socket() string { return filepath.Join(c.Dir, "c.sock") }

// minimalConfig is a configuration with only the content store of containerd:
// nothing that mounts, runs or writes elsewhere.
const minimalConfig = `version = 2
root = "%[1]s/root"
state = "%[1]s/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt", "io.containerd.internal.v1.restart",
  "io.containerd.runtime.v1.linux", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.overlayfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
address = "%[1]s/c.sock"
[ttrpc]
address = "%[1]s/t.sock"
[debug]
address = "%[1]s/d.sock"
level = "warn"
`

// New returns a containerd that does not run yet. Its files are
// removed with t.
func New(t testing.TB) *Containerd {
	t.Helper()
	judge.Dir(t, "LOAM_ROOT_TREE")

	dir, err := os.MkdirTemp("", "loam-containerd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })

	err = os.WriteFile(filepath.Join(dir, "config.toml"), fmt.Appendf(nil, minimalConfig, dir),
		0o600)
	if err != nil {
		t.Fatal(err)
	}

	return &Containerd{Dir: dir}
}

// Start is [New], running.
func Start(t testing.TB) *Containerd {
	t.Helper()
	c := New(t)
	c.Run(t)
	return c
}

// Run runs it with the C library of its own tree, which may differ from the
// host's.
func (c *Containerd) Run(t testing.TB) {
	t.Helper()
	tree := judge.Dir(t, "LOAM_ROOT_TREE")
	loader := one(t, tree+"/lib*/ld-linux-*.so.*")
	library := one(t, tree+"/lib/*-linux-gnu")
	c.cmd = exec.Command(loader, "--library-path", library, tree+"/usr/bin/containerd", "--config",
		filepath.Join(c.Dir, "config.toml"))

	log, err := os.OpenFile(filepath.Join(c.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()

	c.cmd.Stdout = log
	c.cmd.Stderr = log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.exited = make(chan struct{})
	wait, err := child.Start(c.cmd)
	if err != nil {
		t.Fatal(err)
	}
	go func(exited chan struct{}) {
		defer close(exited)
		_ = wait()
	}(c.exited)

	t.Cleanup(func() { c.Stop(); c.show(t) })
	c.await(t)
}

func one(t testing.TB, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %v, none", pattern, err)
	}
	return found[0]
}

// Stop kills it, as a power cut would. It may have ended already.
func (c *Containerd) Stop() {
	_ = c.cmd.Process.Kill()
	<-c.exited
}

func (c *Containerd) show(t testing.TB) {
	if !t.Failed() {
		return
	}
	if text, err := os.ReadFile(filepath.Join(c.Dir, "log")); err == nil {
		t.Logf("containerd, the end of its log:\n%s", text[max(0, len(text)-4000):])
	}
}

// await polls until it answers; there is no notification.
func (c *Containerd) await(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()

	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()

	for {
		if conn, err := net.Dial("unix", c.Socket()); err == nil {
			conn.Close()
			return
		}
		select {
		case <-tick.C:
		case <-c.exited:
			t.Fatal("containerd ended")
		case <-ctx.Done():
			t.Fatal("containerd does not answer")
		}
	}
}
