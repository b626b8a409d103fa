package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// maxLinks is how many symbolic links a path may have, as in the kernel
// (path_resolution(7)).
const maxLinks = 40

var errLinks = errors.New("too many symbolic links")

// walker follows a path as a process would whose root directory is the image's:
// .. of the root is the root, so no path and no link leads out.
type walker struct {
	*tree
	missing func(dir *node, name string) *node // instead of an error; nil if none
	passed  func(dir *node, name string)       // called for each entry on the way
	links   int
	dirs    []*node // from the root to the current directory
	names   []string
}

// walk returns the node at name, and its path without links.
func (t *tree) walk(name string) (*node, string, error) {
	w := walker{tree: t}
	n, err := w.walk(name)
	return n, "/" + path.Join(w.names...), err
}

func (w *walker) walk(name string) (*node, error) {
	w.dirs = []*node{w.root}
	return w.follow(name)
}

// follow continues from the current directory.
func (w *walker) follow(name string) (*node, error) {
	if strings.HasPrefix(name, "/") {
		w.dirs = w.dirs[:1]
		w.names = nil
	}
	for step := range strings.SplitSeq(name, "/") {
		if err := w.step(step); err != nil {
			return nil, err
		}
	}
	return w.here(), nil
}

func (w *walker) here() *node { return w.dirs[len(w.dirs)-1] }

func (w *walker) step(name string) error {
	switch name {
	case "", ".":
		return nil
	case "..":
		if len(w.dirs) > 1 {
			w.dirs = w.dirs[:len(w.dirs)-1]
			w.names = w.names[:len(w.names)-1]
		}
		return nil
	}

	dir := w.here()
	if dir.entries == nil {
		return fmt.Errorf("/%s is not a directory", path.Join(w.names...))
	}

	e, ok := dir.entries[name]
	n := e.node
	if !ok {
		if w.missing == nil {
			return fmt.Errorf("/%s: %w",
				path.Join(append(w.names[:len(w.names):len(w.names)], name)...), fs.ErrNotExist)
		}
		n = w.missing(dir, name)
	} else if w.passed != nil {
		w.passed(dir, name)
	}

	if n.link != "" {
		w.links++
		if w.links > maxLinks {
			return errLinks
		}
		_, err := w.follow(n.link)
		return err
	}

	w.dirs = append(w.dirs, n)
	w.names = append(w.names, name)
	return nil
}
