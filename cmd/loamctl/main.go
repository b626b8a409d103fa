package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/cmd/loamctl/serve"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/cmd/version"
)

func main() { os.Exit(run()) }

// run returns the exit status.
func run() int {
	unix.Umask(0o022) // modes in an image must not depend on who builds it
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second signal ends what does not look at the context.

	return outcome.Run(ctx, root(), os.Args[1:], outcome.Self())
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "loamctl",
		Short: "Build Loam images and run them in virtual machines",
		Long: `loamctl builds Loam images, publishes them, and brings them to machines.

` + outcome.Statuses,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.AddCommand(buildCommand(), signCommand(), keysCommand(), publicKeyCommand(),
		verifyCommand(), bundleCommand(), serve.Command(), publishCommand(), permitCommand(),
		wavesCommand(), withdrawCommand(),
		inspectCommand(), flashCommand(),
		runCommand(), judgesCommand(), machineCommand(),
		kubernetesCommand(), oscCommand(), rolloutCommand(), schemaCommand())
	version.Add(cmd, "")
	flags().Add(cmd)
	usage.Explain(cmd)

	return cmd
}
