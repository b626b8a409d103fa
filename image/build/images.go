package build

import (
	"context"
	"os/exec"
	"path/filepath"

	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/rootfs"
	"github.com/loam-os/loam/image/step"
	"github.com/loam-os/loam/image/tools"
)

// images makes what machines start from, and disks, of a root file system that
// is finished.
type images struct {
	// dir is where the files are made.
	dir string
	// plan has the root hash.
	plan     image.Plan
	tree     rootfs.Root
	programs programs
	tools    tools.Tree
	steps    *step.Log
}

// file returns the path of the output with the suffix.
func (im images) file(suffix string) string {
	return filepath.Join(im.dir, im.plan.Base()+suffix)
}

// tool makes commands of the tools tree that see the directory.
func (im images) tool(ctx context.Context, name string, args ...string) *exec.Cmd {
	return im.tools.Command(ctx, []string{im.dir}, name, args...)
}
