package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/drift"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/metrics"
	"github.com/loam-os/loam/agent/probe"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/upgrade"
)

// Env is the node as the agent's process finds it.
type Env struct {
	// Root is the root directory, "/" on a node; Socket is systemd's.
	Root   string
	Socket string
	// Credentials is $CREDENTIALS_DIRECTORY, "" without one.
	Credentials string
	// Drives are those that machine.yaml may be on; nil if none are looked for.
	Drives *Drives
	// Metrics is the address they are served at, Health that of the agent's own, "" for
	// nowhere.
	Metrics, Health string
	// Consoles are where the status is shown; nil for nowhere.
	Consoles *Consoles
	// Uptime is the time since kernel start, Now the wall clock.
	Uptime func() time.Duration
	Now    func() time.Time
	// SetHostname is sethostname(2).
	SetHostname func(name string) error
	Log         *zap.Logger
}

// NodeEnv is the Env of a real node.
func NodeEnv(log *zap.Logger) Env {
	cluster.Silence()
	consoles, err := OpenConsoles("/dev", "/sys/class/tty/console/active")
	if err != nil {
		log.Warn("no status on a console", zap.Error(err))
	}
	return Env{
		Root: "/", Socket: unit.PrivateSocket, Credentials: os.Getenv("CREDENTIALS_DIRECTORY"), Drives: &Drives{}, Consoles: consoles, Metrics: metrics.Address, Health: metrics.HealthAddress,
		Uptime: Uptime, Now: time.Now, SetHostname: func(name string) error { return unix.Sethostname([]byte(name)) }, Log: log,
	}
}

// jobWait is how long a stage of units may take before the agent goes on: a
// little more than systemd gives a service to start (systemd-system.conf(5),
// DefaultTimeoutStartSec=, 90 s). A change has proven itself when its units have
// been well for steady; limit is when that has to have begun.
const (
	jobWait = 100 * time.Second
	steady  = 10 * time.Second
	limit   = 3 * time.Minute
)

// Run is the agent on a node, until ctx ends.
func Run(ctx context.Context, env Env) error {
	root, err := os.OpenRoot(env.Root)
	if err != nil {
		return fmt.Errorf("open the root directory: %w", err)
	}
	defer root.Close()
	imageRoot, err := openImage(env.Root)
	if err != nil {
		return err
	}
	defer imageRoot.Close()
	systemd, err := unit.Connect(ctx, env.Socket)
	if err != nil {
		return err
	}
	defer systemd.Close()
	facts, record, err := image(root)
	if err != nil {
		return err
	}
	jobs := &Jobs{Units: systemd}
	engine, err := engineOf(env, root, imageRoot, jobs, facts.ImageVersion)
	if err != nil {
		return err
	}
	defer engine.State.Root().Close()
	locked, err := lock(engine.State.Root())
	if err != nil {
		return err
	}
	defer locked.Close()
	watcher, err := drift.New()
	if err != nil {
		return err
	}
	defer watcher.Close()
	contents, err := drift.New()
	if err != nil {
		return err
	}
	defer contents.Close()
	agent := &Agent{
		Engine: engine, Units: systemd, Jobs: jobs, Status: facts, Ready: unit.Ready, Now: env.Uptime, Log: env.Log,
		Reach: probe.Reach, Root: env.Root, Drift: watcher, Contents: contents.Events(), Publish: publisher(env, durable.New(root, nil)),
	}
	wishes, queries := make(Wishes), make(Queries)
	agent.Asked, agent.Queries = wishes, queries
	reset, err := newReset(env, root, engine, systemd)
	if err != nil {
		agent.Status.Warnings = append(agent.Status.Warnings, err.Error())
	}
	data := &dataVolume{Node: DataVolume(root, env.Root, systemd), log: env.Log, changed: make(chan *status.Volume, 1)}
	agent.Engine, agent.Volumes = claimingEngine{engine, data}, data.changed
	joined, from := env.identify(ctx, agent, root, imageRoot, contents, record, wishes, reset, data)
	if err := data.start(ctx, env.Uptime(), agent.Ready); err != nil {
		agent.Status.Warnings = append(agent.Status.Warnings, err.Error())
	}
	agent.Status.Reset = reset.status()
	env.remember(agent, root)
	asked := ctx
	ctx, cancel := context.WithCancelCause(asked)
	reset.End = cancel
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel(nil)
	upgrades, err := env.startUpgrades(ctx, &group, agent, engine, systemd, record, from, queries)
	switch {
	case err != nil && record.Trial:
		return err // Nobody else would judge it. The next start may do better.
	case err != nil:
		agent.Status.Warnings = append(agent.Status.Warnings, err.Error())
	case upgrades != nil && joined != nil:
		joined.Upgrade = func(ctx context.Context, version string) error {
			_, err := upgrades.Ask(ctx, upgrade.Request{Wish: upgrade.Wish{AtOnce: true}, Version: version})
			return err
		}
	}
	group.Go(func() { env.watchHostname(ctx, cancel) })
	group.Go(func() { data.watch(ctx, cancel) })
	group.Go(func() { env.watchDrives(ctx, cancel) })
	group.Go(func() { agent.Network.run(ctx, env) })
	if agent.takeName != nil {
		group.Go(func() { agent.takeName(ctx) })
	}
	if joined != nil {
		group.Go(func() { joined.Run(ctx) })
	}
	group.Go(func() { env.watchOver(ctx, agent, queries, wishes) })
	group.Go(func() { env.serveHTTP(ctx, env.Metrics, metrics.Handler(queries.Take)) })
	group.Go(func() { env.serveHTTP(ctx, env.Health, metrics.Health(queries.Take)) })
	asking := person{wishes, reset, upgrades}
	if reset.undone() {
		group.Go(func() { asking.goOn(ctx, env.Log) })
	}
	err = serve(ctx, agent, filepath.Join(env.Root, control.Socket), asking)
	if cause := context.Cause(ctx); cause != nil && asked.Err() == nil {
		return cause // To be started again: the node has another name, disk or document.
	}
	return err
}

// watchHostname ends the agent's life under this name when the node has another.
func (env Env) watchHostname(ctx context.Context, end context.CancelCauseFunc) {
	name, err := os.Hostname()
	if err == nil {
		err = awaitRename(ctx, hostnameFile, name)
	}
	if errors.Is(err, ErrRenamed) {
		end(err)
	} else if err != nil {
		env.Log.Error("the host name is not watched", zap.Error(err))
	}
}

// serve runs the agent and lets people ask things of it. Without the socket the
// node is still looked after.
func serve(ctx context.Context, agent *Agent, socket string, node control.Node) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listener, err := control.Listen(socket)
	if err != nil {
		agent.Log.Error("listen for people", zap.Error(err))
		return agent.Run(ctx)
	}
	served := make(chan error)
	go func() { served <- control.Serve(ctx, listener, node) }()
	err = agent.Run(ctx)
	cancel()
	return errors.Join(err, <-served)
}

// serveHTTP lets a monitoring system look, unless address is "". Without it the
// node is still looked after.
func (env Env) serveHTTP(ctx context.Context, address string, handler http.Handler) {
	if address == "" {
		return
	}
	listener, err := net.Listen("tcp", address)
	if err == nil {
		err = metrics.Serve(ctx, listener, handler)
	}
	if err != nil {
		env.Log.Error("serve by HTTP", zap.String("address", address), zap.Error(err))
	}
}

// remember keeps from an earlier run of the agent in this boot when its
// generation was applied, so that it is not announced again.
func (env Env) remember(a *Agent, root *os.Root) {
	before := saidBefore(root)
	if before.AppliedAt == 0 {
		return
	}
	current, ok, err := a.Engine.Current()
	if err == nil && ok && current.Name() == before.Generation {
		a.Status.AppliedAt = before.AppliedAt
		if env.Consoles != nil {
			env.Consoles.announced = before.Generation
		}
	}
}

// saidBefore is the status that an earlier run of the agent in this boot left, the zero
// Status if none did.
func saidBefore(root *os.Root) status.Status {
	text, err := root.ReadFile(strings.TrimPrefix(status.Path, "/"))
	if err != nil {
		return status.Status{}
	}
	before, err := status.Parse(text)
	if err != nil {
		return status.Status{}
	}
	return before
}

// publisher writes the status for `loam status` and shows news on the consoles.
func publisher(env Env, node *durable.Dir) func(status.Status, bool) {
	return func(s status.Status, news bool) {
		s.AgentRSS = resident()
		if err := status.Write(node, s); err != nil {
			env.Log.Error("write the status", zap.Error(err))
		}
		if news && env.Consoles != nil {
			env.Consoles.Show(s)
		}
	}
}
