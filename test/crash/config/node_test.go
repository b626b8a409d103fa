package config_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/test/power"
)

const (
	stateDir     = "var/lib/loam"
	crashVersion = "0.1.0"
)

// volatile is what a power cut takes whatever was synced: tmpfs, and the
// overlay of /etc.
var volatile = []string{"etc", "run"}

// crashNode is a node whose power can be cut.
type crashNode struct {
	root, state, image *os.Root
	systemd            *crashSystemd
	boots              int
	hook               func(dir string) durable.Hook
}

// scratch is a directory in memory, where there is one: fsync costs nothing
// there.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "loam-crash-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func openRoot(t testing.TB, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// newCrashNode is a node that has booted and whose agent has started for the
// first time.
func newCrashNode(t testing.TB, image *os.Root) *crashNode {
	t.Helper()
	dir := scratch(t)
	for _, name := range []string{stateDir, "var/opt", "var/lib/db", "etc", "run"} {
		if err := os.MkdirAll(dir+"/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}

	err := errors.Join(
		os.Symlink("var/opt", dir+"/opt"),
		os.WriteFile(dir+"/var/lib/db/data", []byte("not ours"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}

	n, err := openCrashNode(dir, image)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(n.close)
	if err := n.powerOn(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.executor().Resume(context.Background()); err != nil {
		t.Fatal(err)
	}

	return n
}

func openCrashNode(dir string, image *os.Root) (*crashNode, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}

	state, err := root.OpenRoot(stateDir)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &crashNode{
		root:    root,
		state:   state,
		image:   image,
		systemd: newCrashSystemd(dir, image.Name()),
		hook:    func(string) durable.Hook { return nil },
	}, nil
}

func (n *crashNode) close() { n.root.Close(); n.state.Close() }

func (n *crashNode) bootID() string { return fmt.Sprintf("boot-%d", n.boots) }

// executor returns the executor of a new agent.
func (n *crashNode) executor() *apply.Executor {
	return apply.Open(apply.Config{
		State:     durable.New(n.state, n.hook(stateDir)),
		Node:      durable.New(n.root, n.hook("")),
		Image:     n.image.FS(),
		Units:     n.systemd,
		OSVersion: crashVersion,
		BootID:    n.bootID(),
		JobWait:   time.Minute,
		Limit:     time.Minute,
		Now:       func() time.Time { return time.Unix(0, 0) },
		Uptime:    func() time.Duration { return time.Hour },
	})
}

// record has all that is done to the node recorded from now on. base is what
// its disk has, and may lose.
func (n *crashNode) record(base *power.Disk) *power.Recorder {
	r := power.NewRecorder(n.root, base)
	r.Note = func() any { return n.systemd.keep() }
	n.systemd.mark = r.Mark
	n.hook = r.Hook
	return r
}
