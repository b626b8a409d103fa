package main

import (
	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/cmd/usage"
)

func drillCommand() *cobra.Command {
	var client control.Client
	var request control.UpgradeRequest
	var format string
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Prove on this machine that a bad upgrade falls back",
		Long: `drill restarts the machine with a second boot entry of the running system, which
has tries like an upgrade's and fails on purpose: by a check that is never well, or
by a panic of the kernel in each try. The machine has to come back to the entry of
before by itself. 'loam status' then tells how many boots and how long that took.

Firmware, loader, ESP and agent do what they do for an upgrade; the slots of the
systems are not touched.`,
		Example: `  loam drill --plan
  loam drill
  loam drill --by panic`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if by := request.Drill; by != upgrade.DrillCheck && by != upgrade.DrillPanic {
				return usage.Errorf("--by %s: want %s or %s",
					by, upgrade.DrillCheck, upgrade.DrillPanic)
			}

			ctx, stop := interruptible(cmd)
			defer stop()
			o, err := client.Upgrade(ctx, request)
			if err != nil {
				return err
			}
			words := "the machine restarts to fail; `loam status` tells how it went"
			if request.Plan {
				words = "would restart the machine to fail"
			}

			return outcome.Write(cmd.OutOrStdout(), format, o,
				func() string { return words + "\n" })
		},
	}

	outcome.FormatFlag(cmd, &format, "text")
	f := cmd.Flags()
	f.StringVar(&request.Drill, "by", upgrade.DrillCheck,
		"`WHAT` fails: "+upgrade.DrillCheck+" or "+upgrade.DrillPanic)
	f.BoolVar(&request.Plan, "plan", false,
		"only say whether it would be done, or why it is refused")
	socketFlag(cmd, &client)

	return cmd
}
