package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/cmd/version"
	"github.com/loam-os/loam/firmware/osrelease"
	"github.com/loam-os/loam/hint"
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
	fmt.Fprintln(os.Stderr, message(err, os.Geteuid()))
	return 1
}

// message returns what a user sees of an error.
func message(err error, uid int) string {
	text := hint.Text(err)
	// An answer of the agent has its hints in the text.
	hinted := strings.Contains(text, "hint: ")
	if errors.Is(err, fs.ErrPermission) && uid != 0 && !hinted {
		text = hint.Text(hint.With(err, "only root may"))
	}
	return "loam: " + text
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

	group(cmd, "Look at the node, which changes nothing:", statusCommand(), planCommand(),
		historyCommand(), diffCommand(), whyCommand(), disksCommand())
	group(cmd, "Change the node, by asking its agent:", applyCommand(), confirmCommand(),
		rollbackCommand(), verifyCommand(), upgradeCommand(), drillCommand(), resetCommand())
	group(cmd, "What the node itself runs:", agentCommand(), volumeCommand(), bootCommand())
	version.Add(cmd, imageVersion())
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
