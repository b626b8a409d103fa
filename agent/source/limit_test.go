package source

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/inotify"
)

// TestWatchWithoutAnInstance has the receiver look each minute, until the kernel
// has an instance of inotify again.
func TestWatchWithoutAnInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var there atomic.Bool
		file := filepath.Join(t.TempDir(), "file")
		w := watch{paths: []string{file}, open: func() (*os.File, error) {
			if !there.Load() {
				return nil, unix.EMFILE
			}
			return inotify.Open()
		}, add: unix.InotifyAddWatch}

		changes, err := w.start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		<-changes
		<-changes
		there.Store(true)
		<-changes

		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, open := <-changes; !open {
			t.Error("a change ends the watch")
		}
	})
}

// TestWatchLosesItsWatches has too few watches after a change, and then enough.
func TestWatchLosesItsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "dir/file")
		var few atomic.Bool
		w := watch{
			paths: []string{file},
			open:  inotify.Open,
			add: func(fd int, name string, mask uint32) (int, error) {
				if few.Load() {
					return 0, unix.ENOSPC
				}
				return unix.InotifyAddWatch(fd, name, mask)
			},
		}
		changes, err := w.start(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		few.Store(true)
		if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		<-changes
		<-changes
		few.Store(false)
		<-changes
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, open := <-changes; !open {
			t.Error("a change ends the watch")
		}
	})
}
