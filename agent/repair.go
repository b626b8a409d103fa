package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/crypt"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/osimage"
	"github.com/loam-os/loam/agent/repair"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/partitions/fat"
)

const (
	// repairDir is where the repair works, in memory.
	repairDir = "run/loam/repair"
	// repairName is how a repair ended that did not restart the machine.
	repairName = "run/loam/repair.json"
)

// errNotDamaged says that there is nothing to repair.
var errNotDamaged = hint.With(
	fault.With(errors.New("the state partition is in use, and not damaged"), fault.InUse),
	"/init has the partition repaired when it cannot be mounted",
)

// Repair repairs the state partition, before the agent starts. It returns when
// the partition cannot be repaired; else the machine restarts.
func Repair(ctx context.Context, env Env) error {
	root, err := os.OpenRoot(env.Root)
	if err != nil {
		return fmt.Errorf("open the root directory: %w", err)
	}
	defer root.Close()

	facts, record, err := osimage.Observe(root)
	if err != nil {
		return err
	}
	if record.Damage == nil {
		return errNotDamaged
	}

	systemd, err := unit.Connect(ctx, env.Socket)
	if err != nil {
		return err
	}
	defer systemd.Close()

	n := &node{
		Env:     env,
		root:    root,
		systemd: systemd,
		status:  facts,
		record:  record,
	}
	result, err := repair.Runner{
		Damage: *record.Damage,
		Device: record.State,
		ESP:    record.ESP,

		Encrypted: record.Encryption != crypt.None,

		Dir:    filepath.Join(env.Root, repairDir),
		System: &repairSystem{node: n},
		Now:    env.Now,
		Log:    env.Log,
	}.Run(ctx)

	err = errors.Join(err, durable.New(root, nil).WriteVolatileJSON(repairName, result, 0o644))
	if result.State == status.RepairFailed {
		failed := fmt.Errorf("state partition %s: %s", result.Device, result.Problem)
		err = errors.Join(err, hint.With(fault.With(failed, result.Code), "%s", result.Hint))
	}
	return err
}

// repairSystem implements [repair.System] for a node.
type repairSystem struct {
	node  *node
	shown status.RepairState
}

// WithState implements [repair.System].
func (s *repairSystem) WithState(device string, do func(root *os.Root) error) error {
	return repair.WithMounted(device, filepath.Join(s.node.Root, repairDir, "state"), do)
}

// Resets implements [repair.System].
func (s *repairSystem) Resets(ctx context.Context) (bool, error) {
	found, err := s.node.identity().Find(ctx)
	if errors.Is(err, source.ErrNone) {
		return false, nil
	}
	state := found.Machine.State
	return err == nil && state != nil && state.OnDamage == machine.OnDamageReset, err
}

// Show implements [repair.System].
func (s *repairSystem) Show(r status.Repair) {
	now := s.node.status
	now.Repair = &r
	now.Uptime = status.Duration(s.node.Uptime())
	if err := status.Write(durable.New(s.node.root, nil), now); err != nil {
		s.node.Log.Error("write the status", zap.Error(err))
	}
	if s.node.Consoles != nil {
		s.node.Consoles.Show(now, r.State != s.shown)
	}
	s.shown = r.State
}

// GiveBackTry implements [repair.System].
func (s *repairSystem) GiveBackTry() error {
	return repair.WithESP(s.node.record.ESP, func(esp *fat.FS) error {
		return disk.GiveBackTry(esp, s.node.record.RootHash)
	})
}

// restartTime is how long a restart may take to end this process.
const restartTime = 5 * time.Minute

// Restart implements [repair.System]. It returns only if the machine does not
// restart: the agent starts after it.
func (s *repairSystem) Restart(ctx context.Context) error {
	if err := s.node.systemd.Reboot(ctx); err != nil {
		return err
	}

	select {
	case <-ctx.Done():
		return nil
	case <-time.After(restartTime):
		return fmt.Errorf("the machine has not restarted within %s", restartTime)
	}
}

// lastRepair returns the repair that operators should know of, nil if none.
func lastRepair(env Env, root *os.Root, record boot.Record) *status.Repair {
	if record.Damage != nil {
		return repairNow(root, record, env.Now())
	}
	if record.ESP == "" {
		return nil
	}

	last, err := repair.Last(source.Partition{Device: record.ESP}, env.Now())
	if err != nil {
		env.Log.Warn("the last repair of the state partition", zap.Error(err))
	}
	return last
}

// reportDamage reports to the cluster that the state is in memory.
func reportDamage(r *status.Repair, to *cluster.Cluster) {
	if r != nil && r.State == status.RepairFailed && to != nil {
		to.Event(true, "StateDamaged", "the state of the node is in memory: "+r.Damage)
	}
}

// repairNow returns how the repair in this boot ended.
func repairNow(root *os.Root, record boot.Record, now time.Time) *status.Repair {
	var r status.Repair
	found, err := durable.ReadJSON(root.FS(), repairName, &r)
	if found && err == nil {
		return &r
	}
	return &status.Repair{
		State:   status.RepairFailed,
		At:      now,
		Device:  record.State,
		Damage:  record.Damage.Reason,
		Problem: "its repair has failed: `loam logs loam-repair`",
	}
}
