package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/clock"
	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/fleetlock"
	"github.com/loam-os/loam/agent/tpm"
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

// startUpgrades runs upgrades until ctx ends, if the node runs from a disk that
// they can write to.
func (n *node) startUpgrades(ctx context.Context) error {
	if n.record.Root == "" || n.record.Memory {
		return nil // Not started by /init from a disk.
	}
	if n.record.Damage != nil {
		return nil // A journal in memory would not survive the restart.
	}

	from := n.machine.Upgrade
	u, err := n.upgrader()
	restarts, windowErr := window.Parse(from.Window)
	trial, trialErr := upgrade.TrialOf(
		u.Records, u.Boot.Running, durationOr(from.Trial, defaultTrial),
	)
	if err := errors.Join(err, windowErr, trialErr); err != nil {
		return fmt.Errorf("upgrades: %w", err)
	}

	opened, closer, err := disk.Open(n.record.Root)
	if err != nil {
		return fmt.Errorf("upgrades: %w", err)
	}

	u.Disk = opened
	n.upgrades = n.newUpgrades(u, restarts, trial)
	if err := n.startFleetLock(ctx); err != nil {
		closer.Close()
		return fmt.Errorf("upgrades: %w", err)
	}
	n.others.Go(func() {
		defer closer.Close()
		n.upgrades.Run(ctx)
	})

	shared := opened.Share(u.Boot.Running.RootHash, n.Log)
	n.others.Go(func() { n.serveHTTP(ctx, from.Share, shared) })
	return nil
}

// upgrader returns what writes other systems; its disk is not open yet.
func (n *node) upgrader() (*upgrade.Upgrader, error) {
	entry, err := bootentry.Format(bootentry.Name{
		ImageID:   n.status.ImageID,
		Version:   n.status.ImageVersion,
		Arch:      bootentry.Arch(runtime.GOARCH),
		Counted:   true,
		TriesLeft: upgrade.Tries,
	})
	id, idErr := n.BootID()

	return &upgrade.Upgrader{
		Records: upgrade.Files{Dir: n.engine.Config().State},
		Anchor:  anchor(n.record),
		Boot: upgrade.Boot{
			ID:        id,
			Running:   upgrade.System{Version: n.status.ImageVersion, RootHash: n.record.RootHash},
			ImageID:   n.status.ImageID,
			Entry:     entry,
			OtherDisk: n.record.OtherLoader,
			PCRKey:    n.record.PCRKey,
		},
		Node: upgradeNode{n},
		Sys:  os.DirFS(filepath.Join(n.Root, "sys")),
		Now:  n.Now,
		Log:  n.Log,
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

// newUpgrades returns the upgrades that machine.yaml asks for. The cluster may
// ask for them, too.
func (n *node) newUpgrades(
	u *upgrade.Upgrader, restarts window.Window, trial *upgrade.Trial,
) *service.Service {
	built, err := clock.Built()
	if err != nil { // Updates expire by the clock alone, then.
		n.Log.Warn("when the kernel was built", zap.Error(err))
	}

	from := n.machine.Upgrade
	s := service.New(&service.Service{
		Upgrader: u,
		Machine:  upgradeNode{n},
		Releases: service.Releases{
			Ref:   from.Repository,
			Root:  []byte(from.Root),
			Keep:  u.Records,
			Built: built,
		},
		Policy: service.Policy{
			Version: from.Version,
			Mirrors: from.Mirrors,
			Pace:    durationOr(from.Pace, defaultPace),
			Window:  restarts,
		},
		Hostname: n.status.Hostname,
		Trial:    trial,
		Log:      n.Log,
	})

	if n.cluster != nil {
		n.cluster.Env.Upgrade = func(ctx context.Context, version string) error {
			_, err := s.Handle(ctx, service.Request{
				Options: upgrade.Options{AtOnce: true},
				Version: version,
			})
			return hint.InText(err)
		}
		s.Turns = turnsOfPool{n.cluster}
	}
	return s
}

// startFleetLock makes upgrades wait for a slot of the server that machine.yaml
// names, if it names one.
func (n *node) startFleetLock(ctx context.Context) error {
	from := n.machine.Upgrade.Turns
	if from.FleetLock == "" {
		return nil
	}
	text, err := n.root.ReadFile("etc/machine-id")
	if err != nil {
		return err
	}
	id, err := fleetlock.ID(string(text))
	if err != nil {
		return err
	}

	slot := fleetlock.NewSlot(fleetlock.Server{
		URL:    from.FleetLock,
		Client: fleetlock.Client{ID: id, Group: cmp.Or(from.Group, fleetlock.DefaultGroup)},
		HTTP:   &http.Client{},
	}, func() string { return n.upgrades.State().Phase }, rand.Float64, n.Log)
	n.upgrades.Turns = slotTurns{slot}
	n.others.Go(func() { slot.Run(ctx) })
	return nil
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

// upgradeNode is the node as its upgrades know it: it implements [upgrade.Node]
// and [service.Machine].
type upgradeNode struct{ n *node }

// Health implements [upgrade.Node].
func (u upgradeNode) Health(ctx context.Context) upgrade.Health {
	watch := vitals.Node{
		Root:    u.n.Root,
		Sampler: u.n.queries,
	}
	if u.n.cluster != nil {
		watch.Cluster = u.n.cluster
	}
	return watch.Health(ctx)
}

// Evidence implements [upgrade.Node].
func (upgradeNode) Evidence(ctx context.Context, j upgrade.Journal) []string {
	return vitals.Evidence(ctx, j)
}

// HandOver implements [upgrade.Node].
func (u upgradeNode) HandOver(version string, keepOwn bool) error {
	return u.n.engine.HandOver(version, keepOwn)
}

// Loader implements [upgrade.Node].
func (u upgradeNode) Loader() ([]byte, error) {
	return os.ReadFile(filepath.Join(u.n.Root, loader.Installed(runtime.GOARCH)))
}

// Panic implements [upgrade.Node].
func (u upgradeNode) Panic() error { return upgrade.Panic() }

// Uptime implements [service.Machine].
func (u upgradeNode) Uptime() time.Duration { return u.n.Uptime() }

// Reboot implements [service.Machine].
func (u upgradeNode) Reboot(ctx context.Context) error { return u.n.systemd.Reboot(ctx) }

// Event implements [service.Machine]. A node that is part of no cluster has no
// events.
func (u upgradeNode) Event(warning bool, reason, message string) {
	if u.n.cluster != nil {
		u.n.cluster.Event(warning, reason, message)
	}
}

// Proven implements [service.Machine]: it removes the drop-ins with which /init
// makes systemd restart a machine whose trial fails.
func (u upgradeNode) Proven() {
	ctx, cancel := context.WithTimeout(context.Background(), jobWait)
	defer cancel()

	ended := boot.EndTrial(filepath.Join(u.n.Root, "run"))
	if err := errors.Join(ended, u.n.systemd.Reload(ctx)); err != nil {
		u.n.Log.Error("end the trial", zap.Error(err))
	}
}

// durationOr is a duration that was checked before, or the default.
func durationOr(text string, without time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil {
		return d
	}
	return without
}
