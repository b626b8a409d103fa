package manager

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/dm"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/mount"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/partitions/luks"
)

// Units is systemd; see unit.Systemd.
type Units interface {
	Show(ctx context.Context, names []string) ([]unit.State, error)
}

// NewVolume returns the volume of a purpose of the running node, whose root directory is
// at path. units is nil for a process that the unit of the purpose waits for.
func NewVolume(root *os.Root, path string, units Units, purpose *volume.Purpose) volume.Volume {
	open := func(node string, exclusive bool) (volume.Device, error) {
		return volume.OpenToLook(filepath.Join(path, node), exclusive)
	}
	v := volume.Volume{
		For: purpose,
		Machine: volume.Machine{
			Root: os.DirFS(path),
			Open: open,
		},
		Maker: volume.Maker{
			For:     purpose,
			Open:    volume.OpenDisk,
			Run:     linux{}.Run,
			Scratch: filepath.Join(path, "run/loam"),
		},
		System: linux{},
		Dir:    durable.New(root, nil),
		Path:   path,
	}
	if units != nil {
		v.InUse = func(ctx context.Context) bool { return inUse(ctx, units, purpose) }
	}

	return v
}

// inUse reports whether the unit runs, or pods have mounts on the directory of the
// volume. It assumes so if systemd does not answer.
func inUse(ctx context.Context, units Units, purpose *volume.Purpose) bool {
	states, err := units.Show(ctx, []string{purpose.Unit})
	if err != nil {
		return true
	}

	mounts, _ := mount.Kernel{}.Table()
	if len(mounts.Below(purpose.Mountpoint)) > 0 {
		return true
	}
	return len(states) > 0 && states[0].Active != "inactive" && states[0].Active != "failed"
}

// linux implements [volume.System].
type linux struct{}

// Run implements [volume.System]. The error has the last line that the command
// printed.
func (linux) Run(ctx context.Context, command []string) error {
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	if err != nil {
		out = bytes.TrimSpace(out)
		last := out[bytes.LastIndexByte(out, '\n')+1:]
		return fmt.Errorf("%s: %w: %s", command[0], err, last)
	}
	return nil
}

// Mount implements [volume.System].
func (linux) Mount(device, dir, fileSystem, options string) error {
	return unix.Mount(device, dir, fileSystem, unix.MS_NOATIME, options)
}

// Map implements [volume.System].
func (linux) Map(name string, h *luks.Header, table string, size int64) (string, error) {
	control, err := dm.Open()
	if err != nil {
		return "", err
	}
	defer control.Close()

	dev, err := control.Map(dm.Crypt(name, h.UUID, table, size))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/dev/dm-%d", unix.Minor(dev)), nil
}

// Unmount implements [volume.System].
func (linux) Unmount(dir string) error { return unix.Unmount(dir, unix.UMOUNT_NOFOLLOW) }

// Empty implements [volume.System].
func (linux) Empty(dir string) error { return mount.Empty(dir) }
