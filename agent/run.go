package agent

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
)

// Env is the node as the agent's process finds it.
type Env struct {
	// Root is the root directory, "/" on a node; Socket is systemd's.
	Root   string
	Socket string
	// Credentials is $CREDENTIALS_DIRECTORY, "" without one.
	Credentials string
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
	consoles, err := OpenConsoles("/dev", "/sys/class/tty/console/active")
	if err != nil {
		log.Warn("no status on a console", zap.Error(err))
	}
	return Env{
		Root: "/", Socket: unit.PrivateSocket, Credentials: os.Getenv("CREDENTIALS_DIRECTORY"), Consoles: consoles,
		Uptime: Uptime, Now: time.Now, SetHostname: func(name string) error { return unix.Sethostname([]byte(name)) }, Log: log,
	}
}

// jobWait is how long a stage of units may take before the agent goes on: a
// little more than systemd gives a service to start (systemd-system.conf(5),
// DefaultTimeoutStartSec=, 90 s).
const jobWait = 100 * time.Second

// Run is the agent on a node, until ctx ends.
func Run(ctx context.Context, env Env) error {
	root, err := os.OpenRoot(env.Root)
	if err != nil {
		return fmt.Errorf("open the root directory: %w", err)
	}
	defer root.Close()
	systemd, err := unit.Connect(ctx, env.Socket)
	if err != nil {
		return err
	}
	defer systemd.Close()
	facts, record, err := image(root)
	if err != nil {
		return err
	}
	engine, err := newEngine(env, root, systemd, facts.ImageVersion)
	if err != nil {
		return err
	}
	defer engine.Image.Close()
	defer engine.State.Root().Close()
	agent := &Agent{
		Engine: engine, Units: systemd, Status: facts, Ready: unit.Ready, Now: env.Uptime, Log: env.Log,
		Publish: publisher(env, durable.New(root, nil)),
	}
	env.identify(ctx, agent, root, record)
	env.remember(agent, root)
	return agent.Run(ctx)
}

// remember keeps from an earlier run of the agent in this boot when its
// generation was applied, so that it is not announced again.
func (env Env) remember(a *Agent, root *os.Root) {
	text, err := root.ReadFile(strings.TrimPrefix(status.Path, "/"))
	if err != nil {
		return
	}
	before, err := status.Parse(text)
	if err != nil || before.AppliedAt == 0 {
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
