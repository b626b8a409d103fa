package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/loam-os/loam/agent/crypt"
	"github.com/loam-os/loam/agent/mount"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/agent/pods"
	"github.com/loam-os/loam/agent/reset"
	"github.com/loam-os/loam/agent/volume/manager"
)

// newReset opens the reset of the node. A record that cannot be read is a
// warning.
func (n *life) newReset() *reset.Reset {
	r, err := reset.Open(reset.Env{
		Engine:     n.engine,
		Units:      n.systemd,
		Pods:       pods.Runtime{}.RemoveAll,
		Rules:      local.DeleteRules,
		Mounts:     mount.Kernel{},
		Trim:       mount.Trim,
		DropKey:    keyDropper(n.Root, n.record.Container, n.data, n.etcdData),
		Restart:    n.systemd.Reboot,
		Tokens:     n,
		Root:       n.Root,
		Node:       n.records().WithImage(n.image.FS()),
		Now:        n.Now,
		JobTimeout: jobWait,
	})
	n.warn(err)
	return r
}

// keyDropper returns what drops the keys of the state in a container and of the
// volumes, nil if the state is not encrypted.
func keyDropper(
	root, container string, volumes ...*manager.Manager,
) func(record string) error {
	if container == "" {
		return nil
	}
	return func(record string) error {
		// The state has the keys of the volumes.
		for _, v := range volumes {
			err := v.Drop(func(device string) (*os.File, error) {
				return os.OpenFile(filepath.Join(root, device), os.O_RDWR, 0)
			})
			if err != nil {
				return err
			}
		}

		f, err := os.OpenFile(container, os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("drop the key of the state: %w", err)
		}
		return errors.Join(crypt.Drop(f, record), f.Close())
	}
}

// TokenFiles lists the files with the tokens of the cluster that machine.yaml
// names. If the present machine.yaml cannot be read, the one from the start of
// the agent counts. A node that waits for its name has not joined any cluster.
func (n *life) TokenFiles() []string {
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
