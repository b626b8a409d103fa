package vm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Image is what a machine starts from.
type Image struct {
	Arch string
	// Base is a raw image that the machine's disk is layered over, unchanged.
	Base string
	// DiskSize as qemu-img(1) takes it: 8G.
	DiskSize string
	// SectorSize is the sector size of the disks that the image is for.
	SectorSize int
}

// firmware are the files of the Debian packages ovmf and qemu-efi-aarch64.
func firmware(arch string) (code, vars string) {
	if arch == "arm64" {
		return "/usr/share/AAVMF/AAVMF_CODE.no-secboot.fd", "/usr/share/AAVMF/AAVMF_VARS.fd"
	}
	return "/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"
}

// Prepare makes a machine in dir: two processors, 2 GiB of memory, a fresh
// disk over the image, and firmware that remembers nothing. tools is the root
// of the tools tree, run runs its programs and shows them dir and the image.
func Prepare(
	ctx context.Context, tools string, run Runner, image Image, dir string,
) (Config, error) {
	c := Config{
		Arch:       image.Arch,
		CPUs:       2,
		MemoryMB:   2048,
		Dir:        dir,
		Disk:       filepath.Join(dir, "disk.qcow2"),
		SectorSize: image.SectorSize,
	}

	code, vars := firmware(image.Arch)
	text, err := os.ReadFile(filepath.Join(tools, vars))
	if err != nil {
		return c, fmt.Errorf("firmware variables: %w", err)
	}

	c.FirmwareCode = code
	c.FirmwareVars = filepath.Join(dir, "vars.fd")
	if err := os.WriteFile(c.FirmwareVars, text, 0o644); err != nil {
		return c, fmt.Errorf("firmware variables: %w", err)
	}

	out, err := run(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-b", image.Base, "-F", "raw",
		c.Disk, image.DiskSize).CombinedOutput()
	if err != nil {
		return c, fmt.Errorf("make disk: %w\n%s", err, out)
	}

	c.Accel = Accelerator(ctx, image.Arch, runtime.GOARCH, func(ctx context.Context) bool {
		return firmwareStarts(ctx, run, c)
	})

	return c, nil
}

// firmwareStarts tries KVM: the firmware says something within seconds, or
// never.
func firmwareStarts(ctx context.Context, run Runner, c Config) bool {
	trial, err := os.MkdirTemp(c.Dir, "kvm")
	if err != nil {
		return false
	}
	defer os.RemoveAll(trial)

	c.Accel = "kvm"
	c.Disk = ""
	c.Dir = trial
	c.NoReboot = true
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	v, err := Start(ctx, run, c)
	if err != nil {
		return false
	}
	defer v.Kill()

	_, _, _, err = v.Console().Expect(ctx, 0, anything)

	return err == nil
}
