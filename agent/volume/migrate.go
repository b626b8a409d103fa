package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/loam-os/loam/agent/durable"
)

// A copy is in the first of these directories of a volume until it is complete,
// then in the second until it has been moved to its place.
const (
	carrying = ".loam-carrying-over"
	carried  = ".loam-carried-over"
)

// migrate copies the content of the directory from to the volume that is
// mounted at to, if the volume is new. After an interruption it continues or
// starts over. A volume with other content comes from an earlier installation
// of this node, or from another node, and does not change. all reports whether
// the volume has all content of from.
func migrate(
	ctx context.Context,
	from, to string,
	copyTree func(ctx context.Context, from, to string) error,
	hook durable.Hook,
) (all bool, err error) {
	root, err := os.OpenRoot(to)
	if err != nil {
		return false, fmt.Errorf("migrate %s: %w", from, err)
	}
	defer root.Close()

	volume := durable.New(root, hook)
	if _, err := root.Lstat(carried); err == nil {
		return true, publish(volume)
	}
	if has, err := hasContent(root.FS(), carrying); has || err != nil {
		return false, err
	}
	if has, err := hasContent(os.DirFS(from), "lost+found"); !has || err != nil {
		return err == nil, err
	}

	if err := errors.Join(volume.RemoveAll(carrying), volume.MkdirAll(carrying)); err != nil {
		return false, fmt.Errorf("migrate %s: %w", from, err)
	}

	err = copyTree(ctx, from, filepath.Join(to, carrying))
	if err == nil {
		err = volume.RemoveAll(path.Join(carrying, "lost+found")) // The volume has its own.
	}

	if err != nil {
		// A partial copy is useless, and takes up room on the volume.
		return false, errors.Join(fmt.Errorf("migrate %s: %w", from, err),
			volume.RemoveAll(carrying))
	}

	if err := errors.Join(volume.SyncAll(), volume.Move(carrying, carried)); err != nil {
		return false, fmt.Errorf("migrate %s: %w", from, err)
	}

	return true, publish(volume)
}

// publish moves the copy to its place.
func publish(volume *durable.Dir) error {
	root := volume.Root()
	info, err := root.Stat(carried)
	if err != nil {
		return err
	}

	entries, err := fs.ReadDir(root.FS(), carried)
	if err != nil {
		return err
	}

	for _, e := range entries {
		if err := volume.Move(path.Join(carried, e.Name()), e.Name()); err != nil {
			return err
		}
	}

	if err := root.Chmod(".", info.Mode().Perm()); err != nil {
		return err
	}

	return volume.Remove(carried)
}

// hasContent reports whether a directory has entries besides lost+found and
// but.
func hasContent(dir fs.FS, but string) (bool, error) {
	entries, err := fs.ReadDir(dir, ".")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, e := range entries {
		if name := e.Name(); name != "lost+found" && name != but {
			return true, nil
		}
	}
	return false, err
}
