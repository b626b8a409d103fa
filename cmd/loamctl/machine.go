package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/test/vm"
)

func hostArch() string { return runtime.GOARCH }

// machine prepares a virtual machine in dir: a disk over the build's image,
// and firmware with variables of its own.
func (b *builder) machine(ctx context.Context, m manifest.Manifest, dir string) (vm.Config, vm.Runner, error) {
	out, err := filepath.Abs(b.options.out)
	if err != nil {
		return vm.Config{}, nil, err
	}
	run := b.runner(dir, out)
	config, err := vm.Prepare(ctx, b.tools.Dir, run, vm.Image{
		Arch: m.Arch, Base: filepath.Join(out, b.plan.Base()+".raw"), DiskSize: "8G",
	}, dir)
	return config, run, err
}

// runner runs programs of the tools tree that see the directories.
func (b *builder) runner(dirs ...string) vm.Runner {
	return func(ctx context.Context, name string, args ...string) *exec.Cmd {
		return b.tools.Command(ctx, dirs, name, args...)
	}
}

// writeJudges puts a script for each program of the tools tree that tests
// use into dir, to be put first in PATH.
func (b *builder) writeJudges(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	binds := []string{"/tmp"}
	if wd, err := os.Getwd(); err == nil {
		binds = append(binds, wd)
	}
	for _, name := range judges {
		cmd := b.tools.Command(context.Background(), append(binds, b.cache), name)
		if err := writeScript(filepath.Join(dir, name), cmd.Args); err != nil {
			return err
		}
	}
	return nil
}

// judges are the real tools that tests trust more than our own code.
var judges = [...]string{
	"bootctl", "cpio", "dump.erofs", "e2fsck", "fsck.erofs", "fsck.fat", "mcopy", "mdir", "mke2fs", "objdump",
	"qemu-img", "sfdisk", "systemd-analyze", "systemd-dissect", "systemd-repart", "ukify", "veritysetup", "zstd",
}

func writeScript(file string, args []string) error {
	var line strings.Builder
	line.WriteString("#!/bin/sh\nexec")
	for _, a := range args {
		fmt.Fprintf(&line, " '%s'", strings.ReplaceAll(a, "'", `'\''`))
	}
	line.WriteString(" \"$@\"\n")
	return os.WriteFile(file, []byte(line.String()), 0o755)
}
