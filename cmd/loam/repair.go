package main

import (
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
)

// repairCommand is what loam-repair.service runs, in a boot in which /init has
// found the state partition damaged.
func repairCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "repair",
		Short: "Repair the state partition that /init could not mount, and restart",
		Long: `repair runs e2fsck on the state partition, which /init has not mounted because it is
damaged, and restarts the machine. systemd runs it in such a boot. What it found and
changed is in loam status, and later in /var/lib/loam/repair.`,
		Example: "  systemctl status loam-repair.service",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Getenv("INVOCATION_ID") == "" {
				return hint.With(
					usage.Errorf("`loam repair` is for systemd, which runs it: `systemctl status "+
						"loam-repair`"),
					"`loam status` shows whether the state partition is damaged",
				)
			}

			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, unix.SIGTERM)
			defer stop()
			log := logger(os.Stderr)
			defer log.Sync()

			return agent.Repair(ctx, agent.NodeEnv(log))
		},
	}
}
