package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/offline"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
)

func rollbackCommand() *cobra.Command {
	var client control.Client
	var request control.RollbackRequest
	back := control.UpgradeRequest{Back: true}
	var system bool
	var format string
	cmd := &cobra.Command{
		Use:   "rollback [GENERATION]",
		Short: "Go back to an earlier generation, or to the other system",
		Long: `rollback makes an earlier generation the current one, by number or name; without
one, that before the current. 'loam history' lists them. What the node goes back
from is held: it is not applied again unless 'loam apply' asks for it, or the
source says something new. A generation that is held because it failed takes
--held; it is then watched, and taken back if the node is worse.

With --os it restarts the machine with the system in the other slot, and with the
configuration that ran there. That is tried like an upgrade: if the node is worse
than now, it comes back to the running system by itself.`,
		Example: `  loam rollback
  loam rollback 41
  loam rollback --held 42
  loam rollback --os`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeGenerations(&offline.Env{Root: "/"}, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()

			if len(args) > 0 {
				request.Generation = args[0]
				if err := checkGeneration(args[0]); err != nil {
					return err
				}
			}

			switch {
			case system && (len(args) > 0 || request.Held):
				return hint.With(usage.Errorf("a generation and --os: which of both?"),
					"the other system starts with the configuration that it ran with")
			case system:
				return runUpgrade(ctx, cmd, format, client, back)
			case back.Plan || back.Stay:
				return usage.Errorf("--plan and --stay go with --os")
			case request.Held && request.Generation == "":
				return hint.With(usage.Errorf("--held: which generation?"),
					"`loam history` lists them")
			}

			stopWatching := watching(ctx, progressTo(cmd, format), status.Path, agent.Uptime)
			o, err := client.Rollback(ctx, request)
			stopWatching()
			switch {
			case err != nil:
				return err
			case request.Held:
				return showOutcome(cmd.OutOrStdout(), format, o)
			}

			return outcome.Write(cmd.OutOrStdout(), format, o, func() string {
				return fmt.Sprintf("back at %s; %s is held until `loam apply` asks for it\n",
					o.Generation, o.From)
			})
		},
	}

	outcome.FormatFlag(cmd, &format, "text")
	f := cmd.Flags()
	f.BoolVar(&system, "os", false, "the system in the other slot, in place of a generation")
	f.BoolVar(&request.Held, "held", false,
		"take the generation although it is held because it failed, and watch it")
	f.BoolVar(&back.Plan, "plan", false,
		"with --os: only say what would be done, or why it is refused")
	f.BoolVar(&back.Stay, "stay", false,
		"with --os: do not restart; the next restart tries the system")
	socketFlag(cmd, &client)

	return cmd
}
