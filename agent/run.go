package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/crypt"
	"github.com/loam-os/loam/agent/drift"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/hostname/nodename"
	"github.com/loam-os/loam/agent/identity"
	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/metrics"
	"github.com/loam-os/loam/agent/osimage"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/agent/volume/manager"
)

// Run is the agent on a node, until ctx ends.
func Run(ctx context.Context, env Env) error {
	root, err := os.OpenRoot(env.Root)
	if err != nil {
		return fmt.Errorf("open the root directory: %w", err)
	}
	defer root.Close()

	imageRoot, err := osimage.Open(env.Root)
	if err != nil {
		return err
	}
	defer imageRoot.Close()

	systemd, err := unit.Connect(ctx, env.Socket)
	if err != nil {
		return err
	}
	defer systemd.Close()

	facts, record, err := osimage.Observe(root)
	if err != nil {
		return err
	}

	volumeOf := func(purpose *volume.Purpose) *manager.Manager {
		v := manager.NewVolume(root, env.Root, systemd, purpose)
		v.Encrypt = record.Encryption != crypt.None
		return manager.New(v, env.Log)
	}
	n := &node{
		Env:      env,
		root:     root,
		image:    imageRoot,
		systemd:  systemd,
		status:   facts,
		record:   record,
		jobs:     &loop.Jobs{Units: systemd, Changed: make(chan struct{}, 1)},
		requests: make(loop.Requests),
		queries:  make(loop.Queries),
		data:     volumeOf(volume.Data),
		etcdData: volumeOf(volume.Etcd),
	}
	return n.restartDamaged(ctx, n.own(ctx))
}

// Restarts reports whether an error of Run says only that the agent is to start
// again, and nothing that is wrong.
func Restarts(err error) bool {
	reasons := []error{
		loop.ErrReset, loop.ErrFollows, manager.ErrAvailable, nodename.ErrChanged, identity.ErrDrives,
	}
	return slices.ContainsFunc(reasons, func(r error) bool { return errors.Is(err, r) })
}

// own takes the lock, so that no other agent changes the node, and then runs.
func (n *node) own(ctx context.Context) (err error) {
	n.engine, err = n.openEngine()
	if err != nil {
		return err
	}
	defer n.engine.Config().State.Root().Close()
	n.data.Dir.WithSpare(n.spare)
	n.etcdData.Dir.WithSpare(n.spare)

	locked, err := lock(n.engine.Config().State.Root())
	if err != nil {
		return err
	}
	defer locked.Close()

	limits.KeepThreads(limits.SpareThreads)
	if err := n.files.Keep(); err != nil {
		return err
	}
	defer n.files.Close()

	n.managed = drift.New()
	defer n.managed.Close()

	n.contents = drift.New()
	defer n.contents.Close()
	return n.live(ctx)
}

// live is the life of the node under one name and one machine.yaml. The error
// is why it starts again.
func (n *node) live(ctx context.Context) error {
	l := &life{node: n}
	l.reset = l.newReset()
	n.status.Repair = lastRepair(n.Env, n.root, n.record)
	l.identify(ctx)
	n.status.Reset = l.reset.Status()
	for _, v := range []*manager.Manager{n.data, n.etcdData} {
		n.warn(v.Start(ctx, n.Uptime(), unit.Ready))
	}

	n.remember()
	running, end := context.WithCancelCause(ctx)
	defer n.others.Wait()
	defer end(nil)

	upgrades, err := l.newUpgrades().start(running)
	if err != nil {
		if n.record.Trial {
			return err // Only upgrades judge a trial. The next start may do better.
		}
		n.warn(err)
	}

	reportDamage(n.status.Repair, l.cluster)
	op := operator{Requests: n.requests, reset: l.reset, upgrades: upgrades}
	l.startOthers(running, end, op)
	agent := l.agent(running, end, upgrades)
	err = n.serve(running, agent, filepath.Join(n.Root, control.Socket), op)
	if cause := context.Cause(running); cause != nil && ctx.Err() == nil {
		return cause
	}

	return err
}

// startOthers starts what goes on beside the loop until ctx ends.
func (n *life) startOthers(ctx context.Context, end context.CancelCauseFunc, op operator) {
	n.others.Go(func() { n.watchHostname(ctx, end) })
	for _, v := range n.watchedVolumes() {
		n.others.Go(func() {
			n.persist(ctx, "disks are not watched", func() error { return v.Watch(ctx, end) })
		})
	}
	n.others.Go(func() { n.watchDrives(ctx, end) })
	n.others.Go(func() { n.network.Run(ctx, n.Root, n.Log) })
	if n.nameless {
		n.others.Go(func() { n.naming().await(ctx) })
	}
	if n.cluster != nil {
		n.others.Go(func() { n.cluster.Run(ctx) })
	}
	if n.controlPlane != nil {
		n.others.Go(func() { maintainEtcd(ctx, n.Env, n.planeStore(), n.controlPlane.Begun()) })
		n.others.Go(func() { n.controlPlane.Run(ctx) })
	}

	n.others.Go(func() { n.liveness().Run(ctx) })
	if !n.record.Memory {
		n.others.Go(func() { keepSpare(ctx, n.spare, n.Log) })
	}
	n.others.Go(func() { n.serveHTTP(ctx, n.Metrics, metrics.Handler(n.queries.Take)) })
	n.others.Go(func() { n.serveHTTP(ctx, n.Health, metrics.Health(n.queries.Take)) })
	if op.resetUnfinished() {
		n.others.Go(func() { op.goOn(ctx, n.Log) })
	}
}

// watchDrives ends the agent's life when drives come that it has to know of.
// Nothing waits for drives that appear late, or not at all. A node whose drive an
// early version of Loam did not record waits for that as long as it may take.
func (n *life) watchDrives(ctx context.Context, end context.CancelCauseFunc) {
	if !n.Drives.Watched() {
		return
	}

	store := n.identity()
	life := ctx
	ofEarlyVersion := store.Configured()
	if ofEarlyVersion {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, store.UntilOwnDrive())
		defer cancel()
	}
	n.persist(ctx, "drives are not watched", func() error {
		err := n.Drives.Await(ctx)
		if errors.Is(err, identity.ErrDrives) {
			end(err)
			return nil
		}
		return err
	})

	if ofEarlyVersion && life.Err() == nil && n.Drives.None() && !n.reset.Active() {
		store.CloseDrives()
	}
}

// watchedVolumes are those that may come and go while the agent runs. Only a start of the
// agent claims the volume of etcd, and to watch takes a thread and files.
func (n *node) watchedVolumes() []*manager.Manager {
	watched := []*manager.Manager{n.data}
	if _, claimed, err := volume.Etcd.ReadRecord(n.root.FS()); claimed || err != nil {
		watched = append(watched, n.etcdData)
	}
	return watched
}

// serve runs the agent and answers operators' requests. Without the socket the
// loop runs all the same.
func (env Env) serve(
	ctx context.Context, agent *loop.Loop, socket string, node control.Agent,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	// The first try is over before the agent is up.
	listener, listenErr := control.Listen(socket)
	served := make(chan struct{})
	go func() {
		defer close(served)
		env.persist(ctx, "serve the control socket", func() error {
			if listener == nil {
				listener, listenErr = control.Listen(socket)
			}
			if listenErr != nil {
				return listenErr
			}
			defer func() { listener = nil }() // Serve closes it.
			return control.Serve(ctx, listener, node)
		})
	}()

	err := agent.Run(ctx)
	cancel()
	<-served
	return err
}

// retryDelay is when to try again what the kernel had no room for.
const retryDelay = 30 * time.Second

// persist runs something beside the loop. What ends with an error, for lack of files
// or memory, begins again after a while, until ctx ends.
func (env Env) persist(ctx context.Context, problem string, run func() error) {
	for {
		err := run()
		if err == nil || ctx.Err() != nil {
			return
		}
		env.Log.Error(problem, zap.Error(err))

		select {
		case <-ctx.Done():
			return
		case <-time.After(retryDelay):
		}
	}
}

// serveHTTP lets a monitoring system look, unless address is "". Without it the
// loop runs all the same.
func (env Env) serveHTTP(ctx context.Context, address string, handler http.Handler) {
	if address == "" {
		return
	}
	env.persist(ctx, "serve by HTTP", func() error {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		return metrics.Serve(ctx, listener, handler)
	})
}

// probes ask the units that systemd cannot judge whether they answer.
func probes() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"containerd.service": liveness.Containerd(liveness.ContainerdSocket),
		"kubelet.service":    liveness.Kubelet(liveness.KubeletAddress),
	}
}

// hungPlane is how many probes a program of a control plane may fail: 5 min of them.
// On a machine that is too busy, an API server answers to none for a minute or two,
// and a restart makes it busier.
const hungPlane = int(5 * time.Minute / liveness.Every)

// liveness returns what restarts containerd, the kubelet and the programs of the node's
// own cluster when they do not answer.
func (n *life) liveness() liveness.Watch {
	all := probes()
	patience := map[string]int{}
	if n.controlPlane != nil {
		for unit, probe := range local.Probes(new(net.Dialer).DialContext) {
			all[unit] = probe
			patience[unit] = hungPlane
		}
	}
	return liveness.Watch{
		Probes:    all,
		Patience:  patience,
		Standings: n.queries.Standings,
		Restart:   n.requests.RestartUnlessBusy,
		Report: func(e liveness.Event) {
			n.Log.Warn("liveness",
				zap.String("unit", e.Unit),
				zap.String("word", string(e.Word)),
				zap.String("problem", e.Problem),
				zap.Error(e.Err))
			if n.cluster != nil {
				n.cluster.Event(e.Word != liveness.Recovered, "UnitHealth", e.Text())
			}
		},
	}
}

// The spare keeps room on the state partition for what the agent records. A
// configuration, a verdict and a certificate are some kilobytes each.
const (
	spareName  = "spare"
	spareSize  = 16 << 20
	spareRetry = 10 * time.Minute
)

// keepSpare keeps the spare until ctx ends. Once it was given up, it tries to
// have one again.
func keepSpare(ctx context.Context, spare *durable.Spare, log *zap.Logger) {
	for {
		kept, err := spare.Keep()
		if err != nil {
			log.Error("room for the agent's records", zap.Error(err))
		}

		var again <-chan time.Time
		if !kept {
			again = time.After(spareRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-spare.Given():
			log.Warn("the state partition is full: the agent has used its spare room")
		}
	}
}
