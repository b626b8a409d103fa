package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/cmd/usage"
)

func bootCommand() *cobra.Command {
	var facts string
	cmd := &cobra.Command{
		Use:   "boot --facts FILE",
		Short: "Print what /init would decide about a machine",
		Long: `boot prints, as JSON, the decision that /init would take on a machine with the
facts in FILE ("-": standard input). It touches nothing. To boot for real, loam
must be PID 1 on the kernel's initramfs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if facts == "" {
				_, err := boot.BecomeInit(boot.NewConsole("/dev", ""))
				return errors.Join(err, usage.Errorf("nothing to do without --facts FILE"))
			}
			return printDecision(cmd.InOrStdin(), cmd.OutOrStdout(), facts)
		},
	}

	cmd.Flags().StringVar(&facts, "facts", "", "file with the observed facts as JSON")
	return cmd
}

func printDecision(stdin io.Reader, stdout io.Writer, file string) error {
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}

	dec := json.NewDecoder(in)
	dec.DisallowUnknownFields()

	var facts boot.Facts
	if err := dec.Decode(&facts); err != nil {
		return fmt.Errorf("facts in %s: %w", file, err)
	}

	decision, err := boot.Decide(facts)
	if err != nil {
		return err
	}

	enc := json.NewEncoder(stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(decision)
}
