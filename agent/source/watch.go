package source

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/inotify"
)

// watched are the directory events that can change a file: an entry is created,
// deleted, replaced or written, or its permissions change.
const watched = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_ONLYDIR

// Watch watches every directory in which the path is looked up, and so notices
// a file or directory that appears, is replaced by rename or hides behind
// another link. Changes before the last one was received are merged.
func (f File) Watch(ctx context.Context) (<-chan struct{}, error) {
	return start(ctx, watch{paths: []string{f.Path}})
}

// Directories are directories, by absolute path, whose files are replaced by
// rename.
type Directories []string

// Watch is [File.Watch] for every file in the directories, which need not exist
// yet. Names that begin with a dot are temporary files and are ignored.
func (d Directories) Watch(ctx context.Context) (<-chan struct{}, error) {
	return start(ctx, watch{paths: d, entries: true})
}

// pollEvery is how often the receiver is to look while the kernel has no instance
// of inotify, or too few watches.
const pollEvery = time.Minute

// start runs w until ctx ends.
func start(ctx context.Context, w watch) (<-chan struct{}, error) {
	w.open = inotify.Open
	w.add = unix.InotifyAddWatch
	return w.start(ctx)
}

func (w *watch) start(ctx context.Context) (<-chan struct{}, error) {
	err := w.begin()
	if err != nil && inotify.Limit(err) == nil {
		return nil, fmt.Errorf("watch %s: %w", w, err)
	}

	changes := make(chan struct{}, 1)
	go func() {
		defer close(changes)
		for {
			if err == nil {
				err = w.run(ctx, changes)
			}
			if ctx.Err() != nil || inotify.Limit(err) == nil {
				return
			}

			select {
			case <-ctx.Done():
				return
			case <-time.After(pollEvery):
			}
			err = w.begin()
			notify(changes)
		}
	}()

	return changes, nil
}

// begin watches what there is now with an instance of its own.
func (w *watch) begin() error {
	events, err := w.open()
	if err != nil {
		return err
	}
	w.events = events
	w.names = nil
	if err := w.arm(); err != nil {
		return errors.Join(err, events.Close())
	}
	return nil
}

// notify adds a notice, unless one is waiting already.
func notify(changes chan<- struct{}) {
	select {
	case changes <- struct{}{}:
	default:
	}
}

// watch is an inotify instance with its watches.
type watch struct {
	paths []string
	// entries says that the paths are directories whose entries matter.
	entries bool
	// open returns an instance of inotify.
	open func() (*os.File, error)
	// add is inotify_add_watch(2).
	add    func(fd int, name string, mask uint32) (int, error)
	events *os.File
	// names are the entries that matter in each watched directory.
	names map[int][]string
}

// anyName matches every name that does not begin with a dot. No file is called
// that.
const anyName = "/"

func (w watch) String() string { return strings.Join(w.paths, ", ") }

// quietPeriod is how long to wait for the next change: an editor writes several
// times.
const quietPeriod = 100 * time.Millisecond

// run sends a notice for each change until ctx ends, or the directories cannot be
// watched any longer.
func (w *watch) run(ctx context.Context, changes chan<- struct{}) error {
	defer w.events.Close()
	stop := context.AfterFunc(ctx, func() { w.events.Close() })
	defer stop()

	buffer := make([]byte, 64*(unix.SizeofInotifyEvent+unix.NAME_MAX+1))
	for {
		n, err := w.events.Read(buffer)
		if err != nil {
			return err
		}
		if !w.matter(buffer[:n]) {
			continue
		}
		if err := w.arm(); err != nil {
			notify(changes)
			return err
		}

		select {
		case <-time.After(quietPeriod): // A change meanwhile causes the next notice.
		case <-ctx.Done():
			return nil
		}
		notify(changes)
	}
}

// arm watches the directories that the paths lead through now. It repeats until
// nothing has changed meanwhile, so that no event is missed.
func (w *watch) arm() error {
	conn, err := w.events.SyscallConn()
	if err != nil {
		return err
	}

	for {
		taken := w.steps()
		var addErr error

		// Control keeps the descriptor open: ctx may end at any time.
		err := conn.Control(func(fd uintptr) { addErr = w.replace(int(fd), taken) })
		if err != nil {
			return err
		}

		if addErr != nil || slices.EqualFunc(taken, w.steps(), slices.Equal) {
			return addErr
		}
	}
}

// steps returns the steps by which all paths are looked up. For entries of a
// directory, the last step is into the directory.
func (w *watch) steps() [][]step {
	var all [][]step
	for _, path := range w.paths {
		taken := steps(path)
		if info, err := os.Stat(path); w.entries && err == nil && info.IsDir() {
			taken = append(taken, step{path, anyName})
		}
		all = append(all, taken)
	}
	return all
}

// replace watches the directories of all steps and no others.
func (w *watch) replace(fd int, all [][]step) error {
	names := map[int][]string{}
	for _, taken := range all {
		for _, s := range taken {
			wd, err := w.add(fd, s.dir, watched)
			if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
				break // It is gone; then an earlier step changes.
			}
			if err != nil {
				return fmt.Errorf("inotify_add_watch %s: %w", s.dir, err)
			}
			names[wd] = append(names[wd], s.name)
		}
	}

	for wd := range w.names {
		if names[wd] == nil {
			// An error means that the directory and its watch are gone.
			_, _ = unix.InotifyRmWatch(fd, uint32(wd))
		}
	}

	w.names = names
	return nil
}

// matter reports whether one of the events (inotify(7)) is about an entry that
// the paths lead through, or about a relevant entry of a directory.
func (w *watch) matter(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		wd := int(int32(binary.NativeEndian.Uint32(events)))
		mask := binary.NativeEndian.Uint32(events[4:])
		size := binary.NativeEndian.Uint32(events[12:])
		end := unix.SizeofInotifyEvent + int(size)
		name := strings.TrimRight(string(events[unix.SizeofInotifyEvent:end]), "\x00")
		if mask&unix.IN_Q_OVERFLOW != 0 || slices.Contains(w.names[wd], name) {
			return true
		}

		isEntry := slices.Contains(w.names[wd], anyName) && !strings.HasPrefix(name, ".")
		if isEntry && mask&unix.IN_IGNORED == 0 {
			return true
		}

		events = events[end:]
	}
	return false
}
