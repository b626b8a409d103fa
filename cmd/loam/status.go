package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/loam-os/loam/agent"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

func statusCommand() *cobra.Command {
	var file, format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the node runs and how it is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var uptime func() time.Duration
			if file == status.Path {
				uptime = agent.Uptime
			}
			return showStatus(cmd.OutOrStdout(), file, format, uptime)
		},
	}

	cmd.Flags().StringVarP(&format, "output", "o", "table", "table or json")
	cmd.Flags().StringVar(&file, "file", status.Path,
		"status file of the agent, or of another node")
	return cmd
}

// readStatus reads what an agent has left in a file.
func readStatus(file string) (status.Status, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return status.Status{}, hint.With(fault.With(fmt.Errorf("%s: not there", file),
			fault.AgentNotRunning),
			"the agent writes it; see `systemctl status loam-agent`")
	}

	if err != nil {
		return status.Status{}, err
	}

	s, err := status.Parse(text)
	if err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}

	return s, nil
}

// showStatus prints the status in a file. The agent writes it only when something
// changes: uptime returns the time since kernel start, and is nil if the file is of
// another node.
func showStatus(out io.Writer, file, format string, uptime func() time.Duration) error {
	s, err := readStatus(file)
	if err != nil {
		return err
	}
	if uptime != nil {
		s.Uptime = uptime()
	}

	switch format {
	case "json":
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(s)
	case "table":
		_, err = io.WriteString(out, s.Table(width(out), 0))
		return err
	}

	return hint.With(usage.Errorf("output format %q: not known", format), "table or json")
}

// width is the width of the terminal, 80 columns if there is no terminal.
func width(out io.Writer) int {
	if f, ok := out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w >= 40 {
			return w
		}
	}
	return 80
}
