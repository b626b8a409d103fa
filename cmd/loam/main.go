package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/cmd/version"
	"github.com/loam-os/loam/firmware/osrelease"
)

func main() {
	os.Exit(outcome.Run(context.Background(), root(), os.Args[1:], outcome.Self()))
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "loam",
		Short: "Run a Kubernetes node from an immutable image",
		Long: `loam runs a Kubernetes node from an immutable image.

Under systemd it is the node agent: it takes the configuration that machine.yaml
names and makes the node equal to it, and it brings other versions of the image.
The other commands are for a person on the node.

` + outcome.Statuses,
		SilenceErrors: true,
		SilenceUsage:  true,
	}

	group(cmd, "Look at the node, which changes nothing:", statusCommand(), planCommand(),
		historyCommand(), diffCommand(), whyCommand(), logsCommand(), disksCommand(), clusterCommand())
	group(cmd, "Change the node, by asking its agent:", applyCommand(), confirmCommand(),
		rollbackCommand(), verifyCommand(), restartCommand(), upgradeCommand(), drillCommand(),
		resetCommand())
	group(cmd, "Look at the clock, or set it:", clockCommand())
	group(cmd, "What the node itself runs:", agentCommand(), volumeCommand(),
		repairCommand(), bootCommand())
	version.Add(cmd, imageVersion())
	flags(status.Path).Add(cmd)
	usage.Explain(cmd)

	return cmd
}

// imageVersion returns the version of the running image, "" on other machines.
func imageVersion() string {
	text, err := os.ReadFile("/usr/lib/os-release")
	if err != nil {
		return ""
	}
	return osrelease.Parse(text)[osrelease.ImageVersion]
}

// group adds commands that help lists under a title of their own.
func group(to *cobra.Command, title string, commands ...*cobra.Command) {
	to.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
		to.AddCommand(cmd)
	}
}
