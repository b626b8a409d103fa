package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/show"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/cmd/progress"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

func verifyCommand() *cobra.Command {
	var client control.Client
	var request control.VerifyRequest
	var format string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare every managed path with what it should be, and repair it",
		Long: `verify has the agent read all content of all generations and every managed path
of the node, and repair what is not as it should be. It exits with 1 if
something stays so.`,
		Example: `  loam verify
  loam verify --repair=false
  loam verify -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()

			bar := progress.New(progressTo(cmd, format))
			request.Progress = func(done, all int64) { bar.Update("verify", done, all) }
			report, err := client.Verify(ctx, request)
			bar.Close()
			if err != nil {
				return err
			}

			return printReport(cmd.OutOrStdout(), format, report, request.Repair)
		},
	}

	socketFlag(cmd, &client)
	outcome.FormatFlag(cmd, &format, "text")
	cmd.Flags().BoolVar(&request.Repair, "repair", true, "repair what can be")
	return cmd
}

// printReport prints what was found. It is an error if something stays as it should
// not be.
func printReport(
	out io.Writer, format string, report control.VerifyReport, repair bool,
) error {
	left := 0
	for _, bad := range report.Bad {
		if !bad.Repaired {
			left++
		}
	}

	text := func() string { return reportText(report, left) }
	if err := outcome.Write(out, format, report, text); err != nil {
		return err
	}
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

// reportText returns a line for each path that was wrong, and a summary. left is how
// many are still wrong.
func reportText(report control.VerifyReport, left int) string {
	var out strings.Builder
	for _, bad := range report.Bad {
		word := "wrong"
		if bad.Repaired {
			word = "repaired"
		}
		fmt.Fprintf(&out, "%-8s  %s: %s\n", word, bad.Path, bad.Problem)
	}

	found := "all as they should be"
	if all := len(report.Bad); all > 0 {
		found = fmt.Sprintf("%d repaired, %d wrong", all-left, left)
	}

	fmt.Fprintf(&out, "%d paths checked, %s read: %s\n",
		report.Checked, show.Size(report.Bytes), found)
	return out.String()
}
