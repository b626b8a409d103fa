// Package executor makes executors for tests, on a root directory and a
// systemd, real or not.
package executor

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/durable"
)

// Node is what an executor works on.
type Node struct {
	Root, Image *os.Root
	Units       apply.Units

	// Uptime is on the clock of Units. For a real systemd, it is [Uptime].
	Uptime func() time.Duration

	// Hook is called before each durable step; nil if none.
	Hook durable.Hook
}

// Start returns the executor of an agent that starts on the node. It works
// until the test ends.
func (n Node) Start(t testing.TB) *apply.Executor {
	t.Helper()
	if err := n.Root.MkdirAll("var/lib/loam", 0o755); err != nil {
		t.Fatal(err)
	}

	state, err := n.Root.OpenRoot("var/lib/loam")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { state.Close() })

	return apply.Open(apply.Config{
		State:     durable.New(state, n.Hook),
		Node:      durable.New(n.Root, n.Hook),
		Image:     n.Image.FS(),
		Units:     n.Units,
		OSVersion: "0.1.0",
		BootID:    "boot-1",
		JobWait:   time.Minute,
		Limit:     time.Minute,
		Now:       func() time.Time { return time.Unix(0, 0) },
		Uptime:    n.Uptime,
	})
}

// With returns the executor of an agent that starts on the same node with another
// configuration.
func With(e *apply.Executor, change func(*apply.Config)) *apply.Executor {
	c := e.Config()
	change(&c)
	return apply.Open(c)
}

// Uptime returns CLOCK_MONOTONIC, the clock of a real systemd on this host.
func Uptime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // Every kernel has the clock.
	}
	return time.Duration(ts.Nano())
}
