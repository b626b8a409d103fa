package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions/ext4"
)

// repairUnit repairs the state partition before the agent starts. No other boot
// starts it.
const repairUnit = "loam-repair.service"

// failed records why the state partition is not mounted. What a container has is
// unknown while it is not open: nothing may take it for a file system.
func (s *State) failed(err error) {
	if s.Damage != nil {
		return
	}
	if s.Locked {
		s.Damage = &Damage{Reason: err.Error(), Locked: true} // agent/repair has the hint.
		return
	}
	s.Damage = &Damage{Reason: hint.Text(err), Ext4: !s.Format}
}

// startRepair makes systemd start repairUnit in this boot. run is /run.
func startRepair(run string) error {
	dir := filepath.Join(run, "systemd/system/sysinit.target.wants")
	err := errors.Join(os.MkdirAll(dir, 0o755),
		os.Symlink("/usr/lib/systemd/system/"+repairUnit, filepath.Join(dir, repairUnit)))
	if err != nil {
		return fmt.Errorf("repair the state partition: %w", err)
	}
	return nil
}

// probeState reads what the boot needs from the file system of a device, which
// is mounted at dir. The kernel may find damage only now, or when it has read
// the journal; it records that in the superblock.
func probeState(device, dir string) error {
	state := filepath.Join(dir, filepath.FromSlash(generation.Dir[len("/var"):]))
	if err := os.MkdirAll(state, 0o755); err != nil {
		return err
	}
	if _, err := os.ReadDir(state); err != nil {
		return err
	}
	_, err := os.ReadFile(filepath.Join(state, filepath.Base(machineIDFile)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	f, err := os.Open(device)
	if err != nil {
		return err
	}
	defer f.Close()

	// While it is mounted, its checksum may be wrong for a moment.
	if sb, err := ext4.ReadSuperblock(f); err == nil && sb.Errors {
		return errors.New("the kernel has found errors in its file system")
	}
	return nil
}
