package agent

import (
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/mount"
	"github.com/loam-os/loam/agent/pods"
	"github.com/loam-os/loam/agent/reset"
)

// newReset opens the reset of the node. A record that cannot be read is a
// warning.
func (n *node) newReset() *reset.Reset {
	r, err := reset.Open(reset.Env{
		Engine:     n.engine,
		Units:      n.systemd,
		Pods:       pods.Runtime{}.RemoveAll,
		Mounts:     mount.Kernel{},
		Tokens:     n,
		Root:       n.Root,
		Node:       durable.New(n.root, nil),
		Now:        n.Now,
		JobTimeout: jobWait,
	})
	if err != nil {
		n.warn(err)
	}
	return r
}

// TokenFiles names the files with the tokens of the cluster that machine.yaml
// names, as it is now or, if that cannot be read, as it was when the agent
// started. A node that waits for its name has joined none.
func (n *node) TokenFiles() []string {
	tokens := n.tokens
	if !n.nameless {
		if c, _, ok, err := clusterOf(n.machine.Source, n.root); err == nil && ok {
			tokens = c.Tokens
		}
	}

	var files []string
	for _, t := range tokens {
		files = append(files, t.Path)
	}
	return files
}
