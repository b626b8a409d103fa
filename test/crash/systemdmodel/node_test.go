package systemdmodel_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/executor"
)

const sleeper = "[Service]\nExecStart=sleep infinity\n[Install]\nWantedBy=multi-user.target\n"

// node is a root directory and the systemd that runs on it.
type node struct {
	root, image *os.Root
	units       apply.Units
	clock       *clock
}

func newNode(root, image *os.Root, units apply.Units) node {
	c := &clock{}
	return node{
		root:  root,
		image: image,
		units: onClock{units, c},
		clock: c,
	}
}

// clock is systemd's clock and what the test has advanced it by.
type clock struct{ ahead atomic.Int64 }

// advance moves the clock on by d.
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// uptime returns the time since boot.
func (c *clock) uptime() time.Duration {
	return executor.Uptime() + time.Duration(c.ahead.Load())
}

// onClock is a systemd on the clock: a change that it dates a second ago stays a
// second ago when the clock is advanced.
type onClock struct {
	apply.Units
	clock *clock
}

func (u onClock) Show(ctx context.Context, names []string) ([]unit.State, error) {
	states, err := u.Units.Show(ctx, names)
	for i := range states {
		if states[i].Since > 0 {
			states[i].Since += time.Duration(u.clock.ahead.Load())
		}
	}
	return states, err
}

// executor returns a new agent's executor.
func (n node) executor(t *testing.T) *apply.Executor {
	t.Helper()
	return executor.Node{
		Root:   n.root,
		Image:  n.image,
		Units:  n.units,
		Uptime: n.clock.uptime,
	}.Start(t)
}

// put writes a file on the node as another program does.
func (n node) put(t *testing.T, name, text string) {
	t.Helper()
	err := errors.Join(
		n.root.MkdirAll(path.Dir(name), 0o755),
		n.root.WriteFile(name, []byte(text), 0o644),
		n.root.Chmod(name, 0o644),
	)
	if err != nil {
		t.Fatal(err)
	}
}

func (n node) absent(name string) bool {
	_, err := n.root.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}

func (n node) show(t *testing.T, name string) unit.State {
	t.Helper()
	states, err := n.units.Show(t.Context(), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}

func request(d config.Desired) apply.Request { return apply.Request{Desired: d, Source: "test"} }

func text(s string) *string { return &s }
