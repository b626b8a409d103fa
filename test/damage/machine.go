package damage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/repair"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/test/judge"
)

// espSize is enough for a copy of a small partition beside the reserve.
const espSize = 1 << 30

// Machine is a machine with an ESP and a state partition, on files.
type Machine struct {
	// State and ESP are the partitions.
	State, ESP string
	// OnDamageReset is state.onDamage: reset in its machine.yaml.
	OnDamageReset bool
	// AlwaysDamaged means that the damage is there again at each start.
	AlwaysDamaged bool
	// Now is the time of day.
	Now time.Time

	t         testing.TB
	dir       string
	formatted *Partition
	restarts  bool
	log       string // instead of the last repair's

	// cut ends the context of a boot after some more steps.
	cut   context.CancelFunc
	steps int
}

// scratch is a directory in memory: a disk would take ten times as long.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "loam-damage-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// NewMachine returns a machine with a partition.
func NewMachine(t testing.TB, p *Partition) *Machine {
	t.Helper()
	dir := scratch(t)
	m := &Machine{
		State:     filepath.Join(dir, "state"),
		ESP:       filepath.Join(dir, "esp"),
		Now:       time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		t:         t,
		dir:       dir,
		formatted: p,
	}

	if err := errors.Join(writeESP(m.ESP, espSize), p.WriteFile(m.State)); err != nil {
		t.Fatal(err)
	}
	return m
}

// writeESP makes an empty ESP.
func writeESP(name string, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), esp.Write(f, size, 512, 1, nil), f.Close())
}

// SetErrorFlag sets the error flag of a file system.
func SetErrorFlag(t testing.TB, image string) {
	t.Helper()
	judge.Run(t, "debugfs", "-w", "-R", "set_super_value state 2", image)
}

// CutAfter returns a context that ends after a number of steps of a repair.
func (m *Machine) CutAfter(steps int) context.Context {
	ctx, cut := context.WithCancel(context.Background())
	m.cut = cut
	m.steps = steps
	return ctx
}

// End is how a machine ends that starts with a damaged partition.
type End struct {
	// State is "" if the partition was not damaged.
	State status.RepairState
	// Restarts counts the restarts.
	Restarts int
	// Repair is the last repair.
	Repair status.Repair
}

// maxRestarts is more than any machine may need.
const maxRestarts = 10

// Run starts the machine until it stays up. cut, if it is not nil, may end the
// context of a boot: it is called with its number.
func (m *Machine) Run(cut func(boot int) context.Context) (End, error) {
	var end End
	for ; end.Restarts <= maxRestarts; end.Restarts++ {
		damage, err := m.start()
		if err != nil || damage == nil {
			return end, err
		}

		ctx := context.Background()
		if cut != nil {
			ctx = cut(end.Restarts)
		}
		again, err := m.repair(ctx, *damage, &end)
		if err != nil || !again {
			return end, err
		}
	}
	return end, fmt.Errorf("%d restarts", end.Restarts)
}

// Once starts the machine once, until ctx ends.
func (m *Machine) Once(ctx context.Context) error {
	damage, err := m.start()
	if err != nil || damage == nil {
		return err
	}
	_, err = m.repair(ctx, *damage, &End{})
	return err
}

// start is what /init does. It returns why the partition is not mounted.
func (m *Machine) start() (*boot.Damage, error) {
	f, err := os.Open(m.State)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	content := boot.ObserveState(f)
	switch damage := content.Damage(); {
	case damage != nil:
		return damage, nil
	case content.Filesystem == boot.FilesystemEmpty:
		if err := m.formatted.WriteFile(m.State); err != nil || !m.AlwaysDamaged {
			return nil, err
		}
	case content.Filesystem == boot.FilesystemCorrupt:
		return &boot.Damage{Reason: "a torn superblock", Ext4: true}, nil
	}

	if m.AlwaysDamaged || !Mountable(m.t, m.State) {
		return &boot.Damage{Reason: "mount: structure needs cleaning", Ext4: true}, nil
	}
	return nil, nil
}

// repair is what agent/repair does in a boot. It reports whether the machine
// restarts.
func (m *Machine) repair(ctx context.Context, d boot.Damage, end *End) (bool, error) {
	dir := filepath.Join(m.dir, "run")
	if err := os.RemoveAll(dir); err != nil {
		return false, err
	}

	m.restarts = false
	r, err := repair.Runner{
		Damage: d,
		Device: m.State,
		ESP:    m.ESP,
		Dir:    dir,
		System: m,
		Now:    func() time.Time { return m.Now },
		Log:    zap.NewNop(),
	}.Run(ctx)
	if ctx.Err() != nil {
		return true, nil // The power was cut.
	}

	// e2fsck writes to blocks that damaged inodes name. A device has no such.
	if info, err := os.Stat(m.State); err == nil && info.Size() > Size && d.Ext4 {
		if err := os.Truncate(m.State, Size); err != nil {
			return false, err
		}
	}

	end.State = r.State
	end.Repair = r
	return m.restarts, err
}

// Remove removes the files of the machine.
func (m *Machine) Remove() error { return os.RemoveAll(m.dir) }

// Log returns the log of the last repair.
func (m *Machine) Log() string {
	if m.log != "" {
		return m.log
	}
	text, _ := os.ReadFile(filepath.Join(m.dir, "run/e2fsck.log"))
	return string(text)
}

// Mountable reports whether e2fsck finds nothing wrong. With a journal that has
// to be replayed, it asks about a copy on which that is done.
func Mountable(t testing.TB, image string) bool {
	t.Helper()
	out, err := check(t, image)
	if strings.Contains(out, "trying backup blocks") {
		return false // The kernel does not look at copies.
	}
	if !strings.Contains(out, "skipping journal recovery") {
		return err == nil
	}

	replayed := image + ".replayed"
	defer os.Remove(replayed)
	judge.Run(t, "cp", "--sparse=always", image, replayed)
	changes, _ := judge.Try(t, "e2fsck", "-E", "journal_only", "-y", replayed)
	if strings.Contains(changes, "? yes") {
		return false // More than the kernel does when it replays the journal.
	}
	_, err = check(t, replayed)
	return err == nil
}

// check returns the verdict of e2fsck and the begin of its output, of which there
// may be no end.
func check(t testing.TB, image string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	cmd := exec.CommandContext(ctx, judge.Find(t, "e2fsck"), "-f", "-n", image)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	const most = 16 << 20
	text, err := io.ReadAll(io.LimitReader(out, most))
	if len(text) == most {
		cancel()
	}
	return string(text), errors.Join(err, cmd.Wait())
}

// mounted is the directory that stands for the mounted partition.
func (m *Machine) mounted() string { return filepath.Join(m.dir, "mounted") }

// WithState implements [repair.System].
func (m *Machine) WithState(device string, do func(root *os.Root) error) error {
	if !Mountable(m.t, device) {
		return repair.ErrMount
	}

	if err := os.MkdirAll(m.mounted(), 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(m.mounted())
	if err != nil {
		return err
	}
	defer root.Close()
	return do(root)
}

// Resets implements [repair.System].
func (m *Machine) Resets(context.Context) (bool, error) { return m.OnDamageReset, nil }

// Show implements [repair.System]. It is called after each step.
func (m *Machine) Show(status.Repair) {
	m.steps--
	if m.steps == 0 && m.cut != nil {
		m.cut()
	}
}

// GiveBackTry implements [repair.System].
func (*Machine) GiveBackTry() error { return nil }

// Restart implements [repair.System].
func (m *Machine) Restart(context.Context) error {
	m.restarts = true
	return nil
}
