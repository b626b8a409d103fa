// Command loam is the one binary of a running Loam node: the node agent under
// systemd, and the tool of a person on the node.
//
// It runs as loam agent under systemd. The other verbs are for an operator;
// loam boot --facts prints what /init would decide.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(exitCode(root().Execute()))
}

// errToDo is no error: it makes `loam plan --exit-code` exit with 2.
var errToDo = errors.New("there is something to do")

// exitCode prints the error, and returns the exit code.
func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errToDo):
		return 2
	}
	fmt.Fprintf(os.Stderr, "loam: %v\n", err)
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 &&
		!strings.Contains(err.Error(), "hint:") {
		fmt.Fprintln(os.Stderr, "hint: only root may")
	}
	return 1
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "loam",
		Short: "Run a Kubernetes node from an immutable image",
		Long: `loam runs a Kubernetes node from an immutable image.

Under systemd it is the node agent: it takes the configuration that machine.yaml
names and makes the node equal to it, and it brings other versions of the image.
The other commands are for a person on the node.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}

	cmd.CompletionOptions.DisableDefaultCmd = true
	group(cmd, "Look at the node, which changes nothing:", statusCommand(), planCommand(),
		historyCommand(), diffCommand(), whyCommand(), disksCommand())
	group(cmd, "Change the node, by asking its agent:", applyCommand(), confirmCommand(),
		rollbackCommand(), verifyCommand(), upgradeCommand(), drillCommand(), resetCommand())
	group(cmd, "What the node itself runs:", agentCommand(), volumeCommand(), bootCommand())

	return cmd
}

// group adds commands that help lists under a title of their own.
func group(to *cobra.Command, title string, commands ...*cobra.Command) {
	to.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
		to.AddCommand(cmd)
	}
}
