package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade"
)

func whyCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "why",
		Short: "Say why this node fell back from a system",
		Long: `why shows the systems that were tried on this node and did not stay: when, for
which reason, and what their last boot has left in the kernel's log and in the
journal. They are not tried again without 'loam upgrade --again'.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := readStatus(file)
			if err != nil {
				return err
			}
			return explain(cmd.OutOrStdout(), s)
		},
	}

	cmd.Flags().StringVar(&file, "file", status.Path,
		"status file of the agent, or of another node")
	return cmd
}

// explain tells of the failures, the newest first.
func explain(out io.Writer, s status.Status) error {
	if s.Upgrade == nil || len(s.Upgrade.Failed) == 0 {
		_, err := fmt.Fprintf(out, "no system has failed on this node; it runs %s %s\n",
			s.ImageID, s.ImageVersion)
		return err
	}

	failed := s.Upgrade.Failed
	for i := len(failed) - 1; i >= 0; i-- {
		f := failed[i]
		_, err := fmt.Fprintf(out, "%s failed on %s: %s\n  root hash %s\n",
			f.Version, f.At.UTC().Format(time.DateTime), f.Reason, f.RootHash)
		if err != nil {
			return err
		}
		if len(f.Evidence) == 0 && f.Reason != upgrade.RolledBack {
			if _, err := fmt.Fprintln(out, "  the boots that failed have left no log"); err != nil {
				return err
			}
		}
		for _, line := range f.Evidence {
			if _, err := fmt.Fprintf(out, "  | %s\n", line); err != nil {
				return err
			}
		}
	}

	return nil
}
