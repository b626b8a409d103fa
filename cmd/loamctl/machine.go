package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/test/vm"
)

func hostArch() string { return runtime.GOARCH }

// machine prepares a virtual machine in dir: a disk over the build's image,
// and firmware with variables of its own.
func (b *builder) machine(
	ctx context.Context, m manifest.Manifest, dir string,
) (vm.Config, vm.Runner, error) {
	out, err := filepath.Abs(b.options.out)
	if err != nil {
		return vm.Config{}, nil, err
	}

	run := b.runner(dir, out)
	config, err := vm.Prepare(ctx, b.tools.Dir, run, vm.Image{
		Arch:       m.Arch,
		Base:       filepath.Join(out, b.plan.Base()+".raw"),
		DiskSize:   "8G",
		SectorSize: m.SectorSize,
	}, dir)

	return config, run, err
}

// runner runs programs of the tools tree that see the directories.
func (b *builder) runner(dirs ...string) vm.Runner {
	return func(ctx context.Context, name string, args ...string) *exec.Cmd {
		return b.tools.Command(ctx, dirs, name, args...)
	}
}
