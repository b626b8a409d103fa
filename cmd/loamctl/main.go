package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/cmd/version"
	"github.com/loam-os/loam/hint"
)

func main() {
	unix.Umask(0o022) // modes in an image must not depend on who builds it
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := root().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "loamctl:", hint.Text(err))
		os.Exit(1)
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "loamctl",
		Short:         "Build Loam images and run them in virtual machines",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.AddCommand(buildCommand(), signCommand(), keysCommand(), verifyCommand(), bundleCommand(),
		serveCommand(), publishCommand(), permitCommand(), inspectCommand(), flashCommand(),
		runCommand(), judgesCommand(), oscCommand())
	version.Add(cmd, "")
	usage.Explain(cmd)

	return cmd
}
