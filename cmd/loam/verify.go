package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/show"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

func verifyCommand() *cobra.Command {
	var client control.Client
	var request control.VerifyRequest
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare every managed path with what it should be, and repair it",
		Long: `verify has the agent read all content of all generations and every managed path
of the node, and repair what is not as it should be. It exits with 1 if
something stays so.`,
		Example: `  loam verify
  loam verify --repair=false`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()

			report, err := client.Verify(ctx, request)
			if err != nil {
				return err
			}

			return printReport(cmd.OutOrStdout(), report, request.Repair)
		},
	}

	socketFlag(cmd, &client)
	cmd.Flags().BoolVar(&request.Repair, "repair", true, "repair what can be")
	return cmd
}

func printReport(out io.Writer, report control.VerifyReport, repair bool) error {
	repaired := 0
	left := 0
	for _, bad := range report.Bad {
		word := "wrong"
		if bad.Repaired {
			word = "repaired"
			repaired++
		} else {
			left++
		}
		fmt.Fprintf(out, "%-8s  %s: %s\n", word, bad.Path, bad.Problem)
	}

	found := "all as they should be"
	if len(report.Bad) > 0 {
		found = fmt.Sprintf("%d repaired, %d wrong", repaired, left)
	}

	fmt.Fprintf(out, "%d paths checked, %s read: %s\n",
		report.Checked, show.Size(report.Bytes), found)
	switch {
	case left == 0:
		return nil
	case repair:
		return hint.With(fault.With(fmt.Errorf("%d could not be repaired", left),
			fault.NotAsItShould),
			"`loam apply` writes the content again if the source still has it")
	}

	return hint.With(fault.With(fmt.Errorf("%d to repair", left),
		fault.NotAsItShould), "loam verify")
}
