// Package recorded is a node without a systemd: the real agent, engine and
// cluster code on a directory, with a systemd that only records. What is
// measured and tested so is everything but systemd's own time.
package recorded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent"
	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/storage"
	"github.com/loam-os/loam/agent/turns"
)

// Units is the systemd of a node: a *units.Fake, which only records, or a
// *unit.Systemd.
type Units interface {
	apply.Units
	Changes(ctx context.Context) (<-chan string, error)
}

// Node is one node in a directory.
type Node struct {
	Dir      string
	Cluster  *cluster.Cluster
	Agent    *loop.Loop
	requests loop.Requests
	beside   []func(ctx context.Context) error
	close    []func() error
}

// New makes a node of the cluster that c describes. dir is empty, or as an
// earlier run has left it. steady is how long a change is watched.
func New(
	dir string,
	c cluster.Config,
	token string,
	systemd Units,
	steady time.Duration,
	log *zap.Logger,
) (*Node, error) {
	return NewIn(ThisProcess(), dir, c, token, systemd, steady, log)
}

// Process is the program that an agent runs in.
type Process struct {
	// Now is the wall clock of the machine.
	Now func() time.Time

	// Uptime returns the time since the start of the machine.
	Uptime func() time.Duration

	// Part returns a random number in [0, 1), to spread the nodes.
	Part func() float64

	// FreeMemory gives memory back to the kernel.
	FreeMemory func()

	// Image is the tree of an image that all agents share. Without it, each opens one
	// below its own directory.
	Image *os.Root
}

// ThisProcess has the clocks of the machine.
func ThisProcess() Process {
	return Process{
		Now:        time.Now,
		Uptime:     agent.Uptime,
		Part:       rand.Float64,
		FreeMemory: agent.FreeMemory,
	}
}

// NewIn is New in a process with other agents, or with another clock.
func NewIn(
	process Process,
	dir string,
	c cluster.Config,
	token string,
	systemd Units,
	steady time.Duration,
	log *zap.Logger,
) (*Node, error) {
	n := &Node{Dir: dir}
	root, err := n.root(dir)
	if err != nil {
		return nil, err
	}

	image := process.Image
	if image == nil {
		image, err = n.root(filepath.Join(dir, "image"), "usr/lib/systemd/system", "etc")
		if err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}

	state, err := n.root(filepath.Join(dir, "var/lib/loam"))
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}

	node := durable.New(root, nil)
	if err := node.MkdirAll("run/loam"); err != nil {
		return nil, errors.Join(err, n.Close())
	}

	published := durable.New(root, nil) // Each has one writer.
	requests := make(loop.Requests)
	n.requests = requests
	n.Cluster = cluster.New(c, cluster.Env{
		Root:    root,
		Token:   token,
		Restart: requests.RestartUnits,
		Apply: func(ctx context.Context) error {
			_, err := requests.Apply(ctx, control.ApplyRequest{})
			return err
		},
		Now:    process.Now,
		Uptime: process.Uptime,
		Part:   process.Part,
		Log:    log,
	})

	jobs := &loop.Jobs{Units: systemd}
	decoder := decode.Decoder{
		Hostname: c.Hostname,
		Image:    image,
		Contents: n.Cluster,
		Follow:   n.Cluster.Follow,
		Cache:    &decode.Cache{},
	}

	planner := apply.Planner{
		State:     generation.Read(state.FS()),
		Node:      root.FS(),
		Image:     image.FS(),
		Catalog:   generation.NewCatalog(image.FS()),
		Units:     systemd,
		OSVersion: "1.0.0",
	}
	classifier := decoder
	classifier.Follow = nil
	classifier.Cache = &decode.Cache{}
	n.Cluster.Env.Classify = func(
		ctx context.Context, text []byte, secrets content.Provider,
	) (turns.Class, error) {
		return agent.Classify(ctx, classifier, planner, text, secrets)
	}

	n.Agent = &loop.Loop{
		Engine: apply.Open(apply.Config{
			State:     durable.New(state, nil),
			Node:      node,
			Image:     image.FS(),
			Units:     jobs,
			OSVersion: "1.0.0",
			BootID:    "boot",
			JobWait:   time.Minute,
			Steady:    steady,
			Limit:     time.Minute,
			Now:       process.Now,
			Uptime:    process.Uptime,
		}),
		Units:    systemd,
		Jobs:     jobs,
		Source:   n.Cluster,
		Cluster:  n.Cluster,
		Decoder:  decoder,
		Host:     host{published: published, process: process},
		Requests: requests,
		Root:     dir,
		Status:   status.Status{ImageID: "recorded", ImageVersion: "1.0.0", Hostname: c.Hostname},
		Steady:   steady,
		Limit:    time.Minute,
		Log:      log,
	}

	return n, nil
}

// host implements [loop.Host]. All probes answer, and nothing ends the agent.
type host struct {
	published *durable.Dir
	process   Process
}

// Ready implements [loop.Host].
func (host) Ready() error { return nil }

// Alive implements [loop.Host].
func (host) Alive() error { return nil }

// Uptime implements [loop.Host].
func (h host) Uptime() time.Duration { return h.process.Uptime() }

// FreeMemory implements [loop.Host].
func (h host) FreeMemory() { h.process.FreeMemory() }

// Publish implements [loop.Host].
func (h host) Publish(s status.Status, _ bool) error { return status.Write(h.published, s) }

// DoubtClock implements [loop.Host].
func (host) DoubtClock() *status.WrongClock { return nil }

// Limits implements [loop.Host].
func (host) Limits([]status.Limit) []limits.Usage { return nil }

// TakenBack implements [loop.Host].
func (host) TakenBack(string) *status.TakenBack { return nil }

// Threads implements [loop.Host].
func (host) Threads() limits.Usage { return limits.Usage{} }

// Storage implements [loop.Host].
func (host) Storage() []storage.Usage { return nil }

// Reach implements [loop.Host].
func (host) Reach(context.Context, config.Probe) error { return nil }

// Proven implements [loop.Host].
func (host) Proven(context.Context) {}

// End implements [loop.Host].
func (host) End(error) {}

// Run runs the agent, its part in the cluster and everything beside them until
// ctx ends.
func (n *Node) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Cluster.Run(ctx)
	}()

	ended := make(chan error)
	for _, run := range n.beside {
		go func() { ended <- run(ctx) }()
	}

	errs := []error{n.Agent.Run(ctx)}
	cancel()
	<-done

	for range n.beside {
		errs = append(errs, <-ended)
	}

	return errors.Join(errs...)
}

// Close gives back what New has opened.
func (n *Node) Close() error {
	var errs []error
	for _, closes := range n.close {
		errs = append(errs, closes())
	}
	return errors.Join(errs...)
}

// root opens a directory, made with those beneath it.
func (n *Node) root(dir string, beneath ...string) (*os.Root, error) {
	for _, name := range append(beneath, "") {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return nil, fmt.Errorf("make a node: %w", err)
		}
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("make a node: %w", err)
	}

	n.close = append(n.close, root.Close)
	return root, nil
}
