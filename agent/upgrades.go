package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/clock"
	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/fleetlock"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/tpm"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/agent/upgrade/service"
	"github.com/loam-os/loam/agent/vitals"
	"github.com/loam-os/loam/agent/window"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/hint"
)

const (
	defaultPace  = time.Hour
	defaultTrial = 10 * time.Minute
)

// upgrades makes what upgrades the node.
type upgrades struct {
	upgradeHost
	root *os.Root
	// record is what /init left, facts what it runs.
	record boot.Record
	facts  status.Status
	from   machine.Upgrade
	// run runs something beside the loop.
	run func(func())
}

// newUpgrades returns what upgrades the node. It must be called when the node is
// identified.
func (n *life) newUpgrades() upgrades {
	return upgrades{
		upgradeHost: upgradeHost{
			Env:     n.Env,
			systemd: n.systemd,
			engine:  n.engine,
			queries: n.queries,
			cluster: n.cluster,
			due:     &dueFile{run: filepath.Join(n.Root, "run"), log: n.Log},
		},
		root:   n.root,
		record: n.record,
		facts:  n.status,
		from:   n.machine.Upgrade,
		run:    n.others.Go,
	}
}

// start runs upgrades until ctx ends, if the node runs from a disk that they can
// write to; otherwise it returns nil.
func (u upgrades) start(ctx context.Context) (*service.Service, error) {
	if u.record.Root == "" || u.record.Memory {
		return nil, nil // Not started by /init from a disk.
	}
	if u.record.Damage != nil {
		return nil, nil // A journal in memory would not survive the restart.
	}

	upgrader, err := u.upgrader()
	restarts, windowErr := window.Parse(u.from.Window)
	trial, trialErr := upgrade.TrialOf(
		upgrader.Records, upgrader.Boot.Running, durationOr(u.from.Trial, defaultTrial),
	)
	client, clientErr := u.fleetLockClient()
	if err := errors.Join(err, windowErr, trialErr, clientErr); err != nil {
		return nil, fmt.Errorf("upgrades: %w", err)
	}

	opened, closer, err := disk.Open(u.record.Root)
	if err != nil {
		return nil, fmt.Errorf("upgrades: %w", err)
	}

	upgrader.Disk = opened
	s := u.service(upgrader, restarts, trial)
	u.startFleetLock(ctx, s, client)
	u.run(func() {
		defer closer.Close()
		s.Run(ctx)
	})

	shared := opened.Share(upgrader.Boot.Running.RootHash, u.Log)
	u.run(func() { u.serveHTTP(ctx, u.from.Share, shared) })
	return s, nil
}

// upgrader returns what writes other systems; its disk is not open yet.
func (u upgrades) upgrader() (*upgrade.Upgrader, error) {
	entry, err := bootentry.Format(bootentry.Name{
		ImageID:   u.facts.ImageID,
		Version:   u.facts.ImageVersion,
		Arch:      bootentry.Arch(runtime.GOARCH),
		Counted:   true,
		TriesLeft: upgrade.Tries,
	})
	id, idErr := u.BootID()

	return &upgrade.Upgrader{
		Records: upgrade.Files{Dir: u.engine.Config().State},
		Anchor:  anchor(u.record),
		Boot: upgrade.Boot{
			ID:        id,
			Running:   upgrade.System{Version: u.facts.ImageVersion, RootHash: u.record.RootHash},
			ImageID:   u.facts.ImageID,
			Entry:     entry,
			OtherDisk: u.record.OtherLoader,
			PCRKey:    u.record.PCRKey,
		},
		Host: u.upgradeHost,
		Sys:  os.DirFS(filepath.Join(u.Root, "sys")),
		Now:  u.Now,
		Log:  u.Log,
	}, errors.Join(err, idErr)
}

// anchor returns what keeps the lowest security epoch outside of the disk. What a
// key has signed is known from the start: the running system has neither the key
// nor its signatures.
func anchor(r boot.Record) upgrade.Anchor {
	if r.SignedEpoch > 0 {
		return signedAnchor(r.SignedEpoch)
	}
	return tpm.OfMachine()
}

// signedAnchor implements [upgrade.Anchor] for the rest of this boot.
type signedAnchor int

// Read implements [upgrade.Anchor].
func (a signedAnchor) Read() (int, error) { return int(a), nil }

// service returns the upgrades that machine.yaml asks for. The cluster may ask for
// them, too.
func (u upgrades) service(
	upgrader *upgrade.Upgrader, restarts window.Window, trial *upgrade.Trial,
) *service.Service {
	built, err := clock.Built()
	if err != nil { // Updates expire by the clock alone, then.
		u.Log.Warn("when the kernel was built", zap.Error(err))
	}

	// Without it, the machine has the place of all that have none among the waves.
	machine, err := u.machineID()
	if err != nil {
		u.Log.Warn("the machine's ID", zap.Error(err))
	}

	from := u.from
	s := service.New(&service.Service{
		Upgrader: upgrader,
		Machine:  u.upgradeHost,
		Releases: service.Releases{
			Ref:     from.Repository,
			Root:    []byte(from.Root),
			Keep:    upgrader.Records,
			Built:   built,
			Machine: machine,
		},
		Policy: service.Policy{
			Version: from.Version,
			Hold:    from.Hold,
			Mirrors: from.Mirrors,
			Pace:    durationOr(from.Pace, defaultPace),
			Window:  restarts,
		},
		Hostname: u.facts.Hostname,
		Trial:    trial,
		Log:      u.Log,
	})

	if u.cluster != nil {
		u.cluster.Env.Upgrade = func(ctx context.Context, version string) error {
			_, err := s.Handle(ctx, service.Request{
				Options: upgrade.Options{AtOnce: true},
				Version: version,
			})
			return hint.InText(err)
		}
		u.cluster.Env.Again = func(ctx context.Context, version string) error {
			_, err := s.Handle(ctx, service.Request{
				Options: upgrade.Options{Again: true, Now: true},
				Version: version,
			})
			return hint.InText(err)
		}
		s.Turns = turnsOfPool{u.cluster}
	}
	return s
}

// machineID returns the machine's ID (machine-id(5)).
func (u upgrades) machineID() (string, error) {
	text, err := u.root.ReadFile("etc/machine-id")
	return strings.TrimSpace(string(text)), err
}

// fleetLockClient returns the machine as the server knows it that machine.yaml
// names, if it names one.
func (u upgrades) fleetLockClient() (fleetlock.Client, error) {
	if u.from.Turns.FleetLock == "" {
		return fleetlock.Client{}, nil
	}
	text, err := u.machineID()
	if err != nil {
		return fleetlock.Client{}, err
	}
	id, err := fleetlock.ID(text)
	return fleetlock.Client{
		ID:    id,
		Group: cmp.Or(u.from.Turns.Group, fleetlock.DefaultGroup),
	}, err
}

// startFleetLock makes the upgrades wait for a slot of the server that machine.yaml
// names, if it names one.
func (u upgrades) startFleetLock(
	ctx context.Context, s *service.Service, client fleetlock.Client,
) {
	if u.from.Turns.FleetLock == "" {
		return
	}
	slot := fleetlock.NewSlot(fleetlock.Server{
		URL:    u.from.Turns.FleetLock,
		Client: client,
		HTTP:   fleetlock.NewHTTP(),
	}, func() string { return s.State().Phase }, rand.Float64, u.Log)
	s.Turns = slotTurns{slot}
	u.run(func() { slot.Run(ctx) })
}

// slotTurns are the slots of a FleetLock server: it implements [service.Turns].
type slotTurns struct{ slot *fleetlock.Slot }

// Await implements [service.Turns].
func (t slotTurns) Await(s upgrade.System) string { return t.slot.Await(s != upgrade.System{}) }

// Changed implements [service.Turns].
func (t slotTurns) Changed() <-chan struct{} { return t.slot.Changed() }

// turnsOfPool are the turns that the nodes of a pool take: it implements
// [service.Turns].
type turnsOfPool struct{ cluster *cluster.Cluster }

// Await implements [service.Turns].
func (t turnsOfPool) Await(s upgrade.System) string {
	return t.cluster.AwaitTurn(s.Version, s.RootHash)
}

// Changed implements [service.Turns].
func (t turnsOfPool) Changed() <-chan struct{} { return t.cluster.TurnChanged() }

// upgradeHost is the node as its upgrades know it: it implements [upgrade.Host]
// and [service.Machine].
type upgradeHost struct {
	Env
	systemd *unit.Systemd
	engine  *apply.Executor
	queries Queries
	// cluster is nil if the node is part of none.
	cluster *cluster.Cluster
	due     *dueFile
}

// Health implements [upgrade.Host].
func (u upgradeHost) Health(ctx context.Context) upgrade.Health {
	observer := vitals.Observer{
		Root:    u.Root,
		Sampler: u.queries,
	}
	if u.cluster != nil {
		observer.Cluster = u.cluster
	}
	return observer.Health(ctx)
}

// Evidence implements [upgrade.Host].
func (upgradeHost) Evidence(ctx context.Context, j upgrade.Journal) []string {
	return vitals.Evidence(ctx, j)
}

// HandOver implements [upgrade.Host].
func (u upgradeHost) HandOver(version string, keepOwn bool) error {
	return apply.HandOver(u.engine.Config(), version, keepOwn)
}

// Loader implements [upgrade.Host].
func (u upgradeHost) Loader() ([]byte, error) {
	return os.ReadFile(filepath.Join(u.Root, loader.Installed(runtime.GOARCH)))
}

// Panic implements [upgrade.Host].
func (u upgradeHost) Panic() error { return upgrade.Panic() }

// Uptime implements [service.Machine].
func (u upgradeHost) Uptime() time.Duration { return u.Env.Uptime() }

// Reboot implements [service.Machine].
func (u upgradeHost) Reboot(ctx context.Context) error { return u.systemd.Reboot(ctx) }

// RestartDue implements [service.Machine].
func (u upgradeHost) RestartDue(version string) { u.due.say(version) }

// Event implements [service.Machine]. A node that is part of no cluster has no
// events.
func (u upgradeHost) Event(warning bool, reason, message string) {
	if u.cluster != nil {
		u.cluster.Event(warning, reason, message)
	}
}

// Proven implements [service.Machine]: it removes the drop-ins with which /init
// makes systemd restart a machine whose trial fails.
func (u upgradeHost) Proven() {
	ctx, cancel := context.WithTimeout(context.Background(), jobWait)
	defer cancel()

	ended := boot.EndTrial(filepath.Join(u.Root, "run"))
	if err := errors.Join(ended, u.systemd.Reload(ctx)); err != nil {
		u.Log.Error("end the trial", zap.Error(err))
	}
}

// durationOr is a duration that was checked before, or the default.
func durationOr(text string, without time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil {
		return d
	}
	return without
}
