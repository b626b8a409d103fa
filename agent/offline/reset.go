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
)

// Reset says what a reset of the node would take away. What cannot be read of it
// is left out, as it keeps no reset from being done.
func (o *Node) Reset(ctx context.Context) show.Reset {
	r := show.Reset{Host: o.Status.Hostname}
	current, _, _ := o.Current()
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
		if entries, err := fs.ReadDir(o.root.FS(), dir[1:]); err == nil && len(entries) > 0 {
			r.Identity = append(r.Identity, dir)
		}
	}
	socket := filepath.Join(o.env.Root, pods.Socket)
	if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
		return r
	}
	var err error
	if r.Pods, err = (pods.Runtime{Socket: socket}).List(ctx); err != nil {
		r.Unknown = err.Error()
	}
	return r
}
