package tools

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// hostPackage is a package the host needs: it is there when file is.
type hostPackage struct{ name, file string }

var hostPackages = [...]hostPackage{
	{"bubblewrap", "/usr/bin/bwrap"},
	{"debian-archive-keyring", keyring},
	{"mmdebstrap", "/usr/bin/mmdebstrap"},
}

// Missing returns the Debian and Ubuntu packages that this host lacks for
// building. An emulator for other architectures is in the tools tree.
func Missing() []string {
	var names []string
	for _, p := range hostPackages {
		if _, err := os.Stat(p.file); err != nil {
			names = append(names, p.name)
		}
	}
	return names
}

// Install installs packages on this host by apt-get, without questions, with
// sudo for anyone but root. It says on log what it installs.
func Install(ctx context.Context, log io.Writer, packages []string) error {
	if len(packages) == 0 {
		return nil
	}
	fmt.Fprintln(log, "installing on this machine:", packages)
	if err := aptGet(ctx, log, "update"); err != nil {
		return err
	}
	return aptGet(ctx, log,
		append([]string{"install", "--yes", "--no-install-recommends"}, packages...)...)
}

func aptGet(ctx context.Context, log io.Writer, args ...string) error {
	argv := append([]string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet=2"},
		args...)
	if os.Geteuid() != 0 {
		argv = append([]string{"sudo"}, argv...)
	}

	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout = log
	cmd.Stderr = log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apt-get %s: %w", args[0], err)
	}

	return nil
}
