package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

func bootCommand() *cobra.Command {
	var facts string
	cmd := &cobra.Command{
		Use:               "boot --facts FILE",
		ValidArgsFunction: cobra.NoFileCompletions,
		Short:             "Print what /init would decide about a machine",
		Long: `boot prints, as JSON, the decision that /init would take on a machine with the
facts in FILE ("-": standard input). It touches nothing. Each boot of a node leaves
its facts in /run/loam/facts.json.`,
		Example: "  loam boot --facts /run/loam/facts.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printDecision(cmd.InOrStdin(), cmd.OutOrStdout(), facts)
		},
	}

	cmd.Flags().StringVar(&facts, "facts", "", "`FILE` with the observed facts as JSON (required)")
	_ = cmd.MarkFlagRequired("facts") // It fails for an unknown flag only.
	return cmd
}

func printDecision(stdin io.Reader, stdout io.Writer, file string) error {
	facts, err := readFacts(stdin, file)
	if err != nil {
		return err
	}

	decision, err := boot.Decide(facts)
	if err != nil {
		return err
	}

	enc := json.NewEncoder(stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(decision)
}

// readFacts reads one JSON object from a file, or from standard input for "-".
func readFacts(stdin io.Reader, file string) (boot.Facts, error) {
	doc, err := readFile(stdin, file)
	if err != nil {
		return boot.Facts{}, err
	}

	dec := json.NewDecoder(bytes.NewReader(doc.Text))
	dec.DisallowUnknownFields()
	var facts boot.Facts
	err = dec.Decode(&facts)
	switch {
	case errors.Is(err, io.EOF):
		err = errors.New("empty")
	case err == nil && dec.More():
		err = errors.New("something follows the first object")
	case err == nil:
		return facts, nil
	}
	return facts, hint.With(
		fault.With(fmt.Errorf("facts in %s: %w", doc.Name, err), fault.DocumentInvalid),
		"a node has its own in /run/loam/facts.json",
	)
}
