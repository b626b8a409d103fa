// Command init-live is /init of the initramfs that a node starts from over the
// network, or from a USB installer. It is not cmd/init, so that what every
// disk carries has no network in it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/live"
	"github.com/loam-os/loam/agent/netboot"
	"github.com/loam-os/loam/agent/usbinstaller"
	"github.com/loam-os/loam/hint"
)

func main() {
	fmt.Fprintln(os.Stderr, "init:", hint.Text(boot.AsInit(start)))
	os.Exit(1)
}

// start finds the source of the system.
func start(i *boot.Init) error {
	ctx := context.Background()
	if err := i.Start(); err != nil {
		return err
	}

	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return fmt.Errorf("read kernel command line: %w", err)
	}

	p, err := live.ParseParams(string(text))
	if err != nil {
		return err
	}

	if p.From == live.FromInstaller {
		s, err := usbinstaller.Await(i, p.Disk)
		if err != nil {
			return err
		}
		s.Progress = i.Alive
		return live.Run(ctx, i, p, s)
	}

	s, err := netboot.Await(ctx, i, p.RootHash, p.Server)
	if err != nil {
		return err
	}

	return live.Run(ctx, i, p, s)
}
