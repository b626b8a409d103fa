// Command loam is the one binary of a Loam node: /init of the initramfs, the
// node agent under systemd, and the tool of a person on the node.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

func main() {
	if filepath.Base(os.Args[0]) == "init" {
		runInit() // returns only where it must not act
		os.Exit(1)
	}
	if err := root().Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "loam: %v\n", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "loam",
		Short: "Run a Kubernetes node from an immutable image",
		Long: `loam runs a Kubernetes node from an immutable image.

In the initramfs it is /init: it finds the system by its root hash, verifies
and mounts it, and starts systemd. Under systemd it is the node agent: it takes
the configuration that machine.yaml names and makes the node equal to it.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(bootCommand(), agentCommand(), statusCommand())
	return cmd
}
