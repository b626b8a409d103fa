package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/offline"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

func resetCommand() *cobra.Command {
	var env offline.Env
	var client control.Client
	var yes bool
	var format string
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Take the node's configuration and identity away",
		Long: `reset takes the node back to before its first configuration: it stops the kubelet and all
pods, takes away every unit and file that generations have brought, the
generations themselves, and who the node was to its cluster. What cannot be done
is said, and the rest is done. A reset that is cut off goes on with the next
start.

From then on the node reads no source and joins no cluster, until 'loam apply',
or a machine.yaml that is another. Its disks and the image stay as they are. A
node with an encrypted state drops the key, and restarts with a new one.`,
		Example: `  loam reset
  loam reset --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes && outcome.IsJSON(format) {
				return hint.With(usage.Errorf("-o json without --yes: a program is not asked"),
					"loam reset --yes -o json")
			}
			if !yes {
				if err := agree(cmd, env); err != nil {
					return err
				}
			}
			return reset(cmd, format, client)
		},
	}

	rootFlag(cmd, &env)
	socketFlag(cmd, &client)
	outcome.FormatFlag(cmd, &format, "text")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")

	return cmd
}

func reset(cmd *cobra.Command, format string, client control.Client) error {
	ctx, stop := interruptible(cmd)
	defer stop()
	client.Asked = sync.OnceFunc(func() {
		fmt.Fprintln(progressTo(cmd, format),
			"asked the agent: it stops pods and units and removes their data...")
	})
	o, err := client.Reset(ctx)
	if errors.Is(err, control.ErrNoAgent) {
		return hint.With(fault.With(errors.New("no agent runs, and it is what resets the node"),
			fault.AgentNotRunning),
			"systemctl start loam-agent")
	}

	if err != nil {
		return err
	}

	return outcome.Write(cmd.OutOrStdout(), format, o, func() string {
		return "reset: the node follows no configuration until `loam apply`, or another machine.yaml\n"
	})
}

// agree shows what will be lost, and asks the operator on a terminal to type
// the host name.
func agree(cmd *cobra.Command, env offline.Env) error {
	var host string
	err := look(env, func(node *offline.Node) error {
		r := node.Reset(cmd.Context())
		name, err := os.Hostname()
		r.Host = cmp.Or(r.Host, name)
		host = r.Host
		return errors.Join(err, printTo(cmd.OutOrStdout(), r.String()))
	})
	if err != nil {
		return err
	}

	if in, ok := cmd.InOrStdin().(*os.File); !ok || !term.IsTerminal(int(in.Fd())) {
		return hint.With(fault.With(errors.New("not reset: no terminal to ask for confirmation"),
			fault.ConfirmationNeeded),
			"loam reset --yes")
	}

	if err := printTo(cmd.OutOrStdout(), "type the host name to go on: "); err != nil {
		return err
	}

	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if typed := strings.TrimSpace(line); typed != host {
		return fault.With(fmt.Errorf("not reset: %q is not the host name, which is %s", typed, host),
			fault.ConfirmationNeeded)
	}

	if errors.Is(err, io.EOF) {
		err = nil
	}

	return err
}

func printTo(out io.Writer, text string) error {
	_, err := io.WriteString(out, text)
	return err
}
