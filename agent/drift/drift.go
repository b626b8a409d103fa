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
)

// Watcher watches the directories of managed paths, and every directory and
// link in which those are looked up.
type Watcher struct {
	inotify *os.File
	events  chan []string
	done    chan struct{}
	err     error // why the watcher ended; to be read after done
	// add is inotify_add_watch(2).
	add func(fd int, name string, mask uint32) (int, error)

	mu    sync.Mutex
	root  string
	below map[string][]string // managed paths by their directory
	table table
	armed *arming // how the table came about; nil if it has to be made again
	retry retry
}

// New makes a Watcher that watches nothing yet. Close ends it.
func New() (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch managed paths: inotify_init1: %w", err)
	}

	w := &Watcher{
		inotify: os.NewFile(uintptr(fd), "inotify"),
		events:  make(chan []string, 1),
		done:    make(chan struct{}),
		add:     unix.InotifyAddWatch,
	}

	go func() {
		defer close(w.done)
		w.err = w.run()
		w.end()
	}()

	return w, nil
}

// Set makes paths, absolute within the tree root, the managed paths. Links
// above a path are followed, as within that root; the path itself may be one.
// It costs a few system calls for each directory that had no managed paths
// before, one for each that had, and none for each path.
//
// What changed before Set returned need not be reported of paths that were not
// managed before: call Set, then compare. If something was mounted over a
// directory since the last Set, or unmounted, all paths are reported. On error,
// all that can be watched is; see Err.
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
		w.offer(w.all())
	}

	return err
}

// Events sends managed paths that may have changed, sorted, each once. Changes
// made while the last were not received yet are merged with them, so one may
// name a path that Set has taken out since. If the kernel dropped events, or if
// a directory above went, came or moved, that is all paths beneath.
//
// The agent's own changes are events too: each durable rename names the path it
// replaced. Who compares then finds nothing to do. Temporaries are not named.
//
// The channel closes with Close, or when watching has become impossible, which
// Close then explains.
func (w *Watcher) Events() <-chan []string { return w.events }

// Close ends the watcher, waits for it, and returns why it had ended before, if
// it had.
func (w *Watcher) Close() error {
	err := w.inotify.Close()
	<-w.done
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	return errors.Join(w.err, err)
}

// end closes the events: nothing is sent any more.
func (w *Watcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retry.stop()
	w.retry.ended = true
	close(w.events)
}

// all are the managed paths.
func (w *Watcher) all() set {
	all := set{}
	for _, paths := range w.below {
		all.add(paths)
	}
	return all
}

// together is how long events are collected before they are read. Whoever
// changes many files makes several events for each, and they would wake the
// agent one by one.
const together = 2 * time.Millisecond

// run reads events until the watcher is closed.
func (w *Watcher) run() error {
	buffer := make([]byte, 256*(unix.SizeofInotifyEvent+unix.NAME_MAX+1))
	for {
		n, err := w.inotify.Read(buffer)
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

// take reports what events are about. If the way to a path has changed, it
// watches the new one first, so that whoever looks then misses nothing.
func (w *Watcher) take(events []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed, moved := w.table.match(events, w.below)
	var err error
	if moved {
		w.armed = nil
		err = w.rearm()
	}

	if errors.Is(err, unix.ENOSPC) {
		err = nil // It is tried again.
	}

	w.offer(changed)
	return err
}

// offer puts changed into the channel, merged with what waits there. It does
// not block: the channel holds one, and who sends holds the lock.
func (w *Watcher) offer(changed set) {
	if len(changed) == 0 || w.retry.ended {
		return
	}
	select {
	case waiting := <-w.events:
		changed.add(waiting)
	default:
	}
	w.events <- slices.Sorted(maps.Keys(changed))
}
