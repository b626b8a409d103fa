package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// nodeDisk is the disk of the nodes that run on this machine: ext4 in a file,
// with a journal and the defaults of mke2fs, as the state partition of a node.
// Without one, the figures would be those of this machine's own file system: on
// ext4 without a journal, the inodes of deleted files stay unusable for
// seconds, and making a file takes up to a hundred times as long
// (EXT4_RECENTLY_DELETED_THRESHOLD in fs/ext4/ialloc.c).
type nodeDisk struct{ image, mountpoint string }

// nodeDiskSize has room for the nodes of all rounds.
const nodeDiskSize = 2 << 30

// newNodeDisk makes an empty one in dir.
func newNodeDisk(ctx context.Context, dir string) (nodeDisk, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nodeDisk{}, err
	}

	d := nodeDisk{image: filepath.Join(dir, "node.ext4"), mountpoint: filepath.Join(dir, "node")}
	if err := os.MkdirAll(d.mountpoint, 0o755); err != nil {
		return nodeDisk{}, err
	}
	if err := os.RemoveAll(d.image); err != nil {
		return nodeDisk{}, err
	}
	if err := os.WriteFile(d.image, nil, 0o644); err != nil {
		return nodeDisk{}, err
	}
	if err := os.Truncate(d.image, nodeDiskSize); err != nil {
		return nodeDisk{}, err
	}

	format := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0", d.image)
	if text, err := format.CombinedOutput(); err != nil {
		return nodeDisk{}, fmt.Errorf("format the disk of the nodes: %w\n%s", err, text)
	}
	return d, nil
}

// command is a command that has the disk mounted at its mountpoint. The mount
// is in a namespace of the command's own, and ends with it.
func (d nodeDisk) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	const script = `mount -o loop "$1" "$2" && shift 2 && exec "$@"`
	inside := append([]string{"--mount", "--propagation", "private",
		"sh", "-c", script, "sh", d.image, d.mountpoint, name}, args...)
	return exec.CommandContext(ctx, "unshare", inside...)
}
