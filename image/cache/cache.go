// Package cache stores slow builds by name: a directory that exists is
// complete. A name holds a digest of all inputs, so an entry of the cache is
// never out of date.
package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Ensure returns the path of the entry name in dir, and calls build to make it
// if it is not there. build gets an empty directory of mode 0755 to fill; it
// becomes the entry by one rename, so that a build that is killed leaves
// nothing that looks complete. Of two processes that want the same entry one
// builds and the other waits.
func Ensure(ctx context.Context, dir, name string, build func(tmp string) error) (string, error) {
	path := filepath.Join(dir, name)
	if exists(path) {
		return path, nil
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}

	unlock, err := lock(ctx, path+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()

	if exists(path) {
		return path, nil
	}

	return path, fill(path, build)
}

// fill builds path; the caller holds its lock.
func fill(path string, build func(tmp string) error) error {
	tmp := path + ".partial"
	if err := os.RemoveAll(tmp); err != nil {
		return fmt.Errorf("remove an unfinished build: %w", err)
	}
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	if err := build(tmp); err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}

	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("cache: %w", err)
	}

	return nil
}

// lock takes the lock file name, which is left in place: removing it would let
// two processes hold locks on two files of one name.
func lock(ctx context.Context, name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}

	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}

		if !errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}

		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("wait for the build that holds %s: %w", name, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
