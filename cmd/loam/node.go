package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/offline"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// rootFlag says which node is looked at.
func rootFlag(cmd *cobra.Command, env *offline.Env) {
	cmd.Flags().StringVar(&env.Root, "root", "/", "`DIR` in place of the root directory of the node")
}

// checkRoot refuses what is not a directory in place of the root directory, for
// commands that do not open it.
func checkRoot(dir string) error {
	root, err := offline.OpenRoot(dir)
	if err != nil {
		return err
	}
	return root.Close()
}

// offlineFlags say which node a command looks at, and by whose identity.
func offlineFlags(cmd *cobra.Command, env *offline.Env) {
	rootFlag(cmd, env)
	cmd.Flags().StringVar(&env.Hostname, "hostname", "", "host `NAME` of the node (default: its own)")
	cmd.Flags().StringVar(&env.Contents, "contents", "",
		"`DIR` with what documents refer to (default: as in machine.yaml)")
}

// socketFlag says which agent is asked.
func socketFlag(cmd *cobra.Command, client *control.Client) {
	cmd.Flags().StringVar(&client.Socket, "socket", control.Socket, "`PATH` where the agent listens")
}

// interruptible ends with SIGINT or SIGTERM: what the agent was asked goes on.
func interruptible(cmd *cobra.Command) (context.Context, func()) {
	return signal.NotifyContext(cmd.Context(), os.Interrupt, unix.SIGTERM)
}

// readFile reads a file, or standard input for "-".
func readFile(stdin io.Reader, file string) (doc source.Document, err error) {
	doc.Name = file
	if file == "-" {
		doc.Name = "standard input"
		doc.Text, err = document.Read(doc.Name, stdin)
	} else {
		doc.Text, err = document.ReadFile(file)
	}
	return doc, err
}

// readDocument reads a configuration as readFile does. An empty document would
// ask the agent for its own source.
func readDocument(stdin io.Reader, file string) (source.Document, error) {
	doc, err := readFile(stdin, file)
	if err != nil {
		return doc, err
	}
	if len(doc.Text) == 0 {
		return doc, hint.With(
			fault.With(fmt.Errorf("%s: empty", doc.Name), fault.DocumentInvalid),
			"a configuration begins with apiVersion and kind",
		)
	}

	return doc, nil
}

// look opens the node, calls do, and closes it.
func look(env offline.Env, do func(*offline.Node) error) error {
	node, err := offline.Open(env)
	if err != nil {
		return err
	}
	return errors.Join(do(node), node.Close())
}
