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

// What is copied is in the first of these directories of a volume until all of
// it is there, then in the second until it is where it belongs.
const (
	carrying = ".loam-carrying-over"
	carried  = ".loam-carried-over"
)

// carry copies what is in the directory from to the volume that is mounted at
// to, if that is new. Wherever it was cut off, it goes on, or begins anew. A
// volume that holds something else is from an earlier life of the node, or from
// another node, and stays as it is. all says that what is in from is on the
// volume, too.
func carry(
	ctx context.Context,
	from, to string,
	copyTree func(ctx context.Context, from, to string) error,
	hook durable.Hook,
) (all bool, err error) {
	root, err := os.OpenRoot(to)
	if err != nil {
		return false, fmt.Errorf("carry over %s: %w", from, err)
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
		return false, fmt.Errorf("carry over %s: %w", from, err)
	}

	err = copyTree(ctx, from, filepath.Join(to, carrying))
	if err == nil {
		err = volume.RemoveAll(path.Join(carrying, "lost+found")) // The volume has its own.
	}

	if err != nil {
		// What is there would take the room of what is wanted.
		return false, errors.Join(fmt.Errorf("carry over %s: %w", from, err),
			volume.RemoveAll(carrying))
	}

	if err := errors.Join(volume.SyncAll(), volume.Move(carrying, carried)); err != nil {
		return false, fmt.Errorf("carry over %s: %w", from, err)
	}

	return true, publish(volume)
}

// publish moves what was copied to where it belongs.
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

// hasContent reports whether a directory has anything besides lost+found and
// the entry but.
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
