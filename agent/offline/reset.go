package offline

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/pods"
	"github.com/loam-os/loam/agent/show"
	"github.com/loam-os/loam/hint"
)

// Reset returns what a reset of the node would remove. It leaves out what
// cannot be read, as that does not keep a reset from removing it.
func (n *Node) Reset(ctx context.Context) show.Reset {
	r := show.Reset{Host: n.Status.Hostname, Encrypted: n.Status.Encryption != ""}

	current, _, _ := n.Current()
	r.Generation = current.Name()
	for _, u := range current.Units {
		r.Units = append(r.Units, u.Name)
	}
	for _, e := range current.Entries {
		if e.Kind == generation.KindFile {
			r.Files++
		}
	}

	directories, _ := cluster.Identity()
	for _, dir := range directories {
		if entries, err := fs.ReadDir(n.root.FS(), dir[1:]); err == nil && len(entries) > 0 {
			r.Identity = append(r.Identity, dir)
		}
	}

	socket := filepath.Join(n.env.Root, pods.Socket)
	if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
		return r
	}
	list, err := pods.Runtime{Socket: socket}.List(ctx)
	r.Pods = list
	if err != nil {
		r.Unknown = hint.Line(err)
	}
	return r
}
