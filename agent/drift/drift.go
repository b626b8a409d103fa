package drift

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/inotify"
)

// Watcher watches the directories of managed paths, and every directory and
// link through which they are looked up.
type Watcher struct {
	events chan []string
	done   chan struct{}
	err    error // why the watcher ended; read it only after done is closed
	// open returns an instance of inotify.
	open func() (*os.File, error)
	// add is inotify_add_watch(2).
	add func(fd int, name string, mask uint32) (int, error)

	mu sync.Mutex
	// inotify is nil as long as the kernel has given none.
	inotify *os.File

	root  string
	below map[string][]string // managed paths by their directory
	table table
	armed *arming // the state behind table; nil if it must be rebuilt
	retry retry
	ended bool
}

// New returns a Watcher that watches nothing yet. Close must be called.
func New() *Watcher {
	return &Watcher{
		events: make(chan []string, 1),
		done:   make(chan struct{}),
		open:   inotify.Open,
		add:    unix.InotifyAddWatch,
	}
}

// Set makes paths, absolute within the tree root, the managed paths. Links
// above a path are followed within that root; the path itself may be a link. It
// costs a few system calls for each directory that had no managed paths before,
// one for each directory that had, and none for each path.
//
// Changes before Set returned may go unreported for paths that were not managed
// before: call Set, then compare. If something was mounted over a directory or
// unmounted since the last Set, all paths are reported. After an error
// everything that can be watched is; see Err.
func (w *Watcher) Set(root string, paths []string) error {
	below := map[string][]string{}
	for _, name := range paths {
		if !path.IsAbs(name) || path.Clean(name) != name || name == "/" {
			return fmt.Errorf("watch managed path %q: not clean and absolute", name)
		}
		below[path.Dir(name)] = append(below[path.Dir(name)], name)
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	if root != w.root {
		w.armed = nil
	}

	w.root = root
	w.below = below

	covered := w.armed != nil && w.armed.covered()
	if covered {
		w.armed = nil
	}

	err := w.rearm()
	if covered {
		w.report(w.all())
	}

	return err
}

// Events sends managed paths that may have changed, sorted and without
// duplicates. Changes are merged until they are received, so a path may be
// reported that a later Set has removed. If the kernel dropped events, or a
// directory above was removed, created or renamed, all paths below it are
// reported.
//
// The agent's own changes are events too: each durable rename reports the path
// it replaced, and comparing it then finds no difference. Temporaries are not
// reported.
//
// The channel closes with Close, or when watching fails for good; Close then
// returns the error.
func (w *Watcher) Events() <-chan []string { return w.events }

// Close ends the watcher, waits for it, and returns the error that ended it
// earlier, if any.
func (w *Watcher) Close() error {
	err := w.closeInotify()
	<-w.done
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	return errors.Join(w.err, err)
}

func (w *Watcher) closeInotify() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inotify != nil {
		return w.inotify.Close()
	}
	w.end()
	return nil
}

// end closes the channel of events; nothing is sent after it. mu must be held.
func (w *Watcher) end() {
	if w.ended {
		return
	}
	w.ended = true
	w.retry.stop()
	close(w.events)
	close(w.done)
}

// all returns the managed paths.
func (w *Watcher) all() set {
	all := set{}
	for _, paths := range w.below {
		all.add(paths)
	}
	return all
}

// together is how long events are collected before they are read. A program
// that changes many files makes several events for each, which would wake the
// agent one by one.
const together = 2 * time.Millisecond

// run reads events until the watcher is closed, and ends it.
func (w *Watcher) run(events *os.File) {
	err := w.takeAll(events)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	w.end()
}

func (w *Watcher) takeAll(events *os.File) error {
	buffer := make([]byte, 256*(unix.SizeofInotifyEvent+unix.NAME_MAX+1))
	for {
		n, err := events.Read(buffer)
		if err == nil {
			err = w.take(buffer[:n])
		}

		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watch managed paths: %w", err)
		}

		time.Sleep(together)
	}
}

// take reports the paths that events are about. If the way to a path has
// changed, it watches the new way first, so that a reader of the report misses
// nothing.
func (w *Watcher) take(events []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed, moved := w.table.match(events, w.below)
	var err error
	if moved {
		w.armed = nil
		err = w.rearm()
	}

	if inotify.Limit(err) != nil {
		err = nil // It is retried.
	}

	w.report(changed)
	return err
}

// report sends changed, merged with what is waiting in the channel. It does not
// block: the channel has room for one, and every sender holds the lock.
func (w *Watcher) report(changed set) {
	if len(changed) == 0 || w.ended {
		return
	}
	select {
	case waiting := <-w.events:
		changed.add(waiting)
	default:
	}
	w.events <- slices.Sorted(maps.Keys(changed))
}
