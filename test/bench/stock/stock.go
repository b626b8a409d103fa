// Package stock makes the disk that the boot time of Loam is compared with: the
// same root tree, booted the way mkosi does by default.
package stock

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/loam-os/loam/image/cache"
	"github.com/loam-os/loam/image/rootfs"
	"github.com/loam-os/loam/image/tools"
)

// Reached is in what the first serial port says when the boot is over.
const Reached = "multi-user.target"

// Disk returns a raw disk image that boots root from UEFI firmware. p.Config
// is the mkosi configuration beside this file; osRelease is the file
// os-release, which root does not have yet. The image is in the cache: copy it
// before a machine writes to it.
func Disk(
	ctx context.Context, t tools.Tree, root rootfs.Root, p rootfs.Params, osRelease string,
) (string, error) {
	name, err := diskName(root, p, osRelease)
	if err != nil {
		return "", fmt.Errorf("stock disk: %w", err)
	}

	entry, err := cache.Ensure(ctx, p.Cache, name, func(tmp string) error {
		return p.Mkosi(ctx, t, tmp, "stock", []string{root.Dir, osRelease},
			"--base-tree="+root.Dir,
			"--skeleton-tree="+osRelease+":/usr/lib/os-release",
			"--extra-tree=/usr/lib/systemd/boot:/usr/lib/systemd/boot")
	})
	if err != nil {
		return "", fmt.Errorf("stock disk: %w", err)
	}

	return filepath.Join(entry, "stock.raw"), nil
}

// diskName is made of all that the disk is made from.
func diskName(root rootfs.Root, p rootfs.Params, osRelease string) (string, error) {
	config, err := rootfs.Digest(p.Config)
	if err != nil {
		return "", err
	}

	release, err := os.ReadFile(osRelease)
	if err != nil {
		return "", err
	}

	tree := filepath.Base(filepath.Dir(root.Dir))
	sum := sha256.Sum256(fmt.Appendln(nil, config, tree, string(release), p.Arch,
		p.SourceDateEpoch))
	return fmt.Sprintf("stock-%s-%x", p.Arch, sum[:6]), nil
}
