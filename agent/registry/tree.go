package registry

import (
	"archive/tar"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/opencontainers/go-digest"
)

// tree has the files of an image as if its layers were unpacked, lowest first
// (OCI image specification, layer.md). Nothing is on disk.
type tree struct {
	root  *node
	names int
}

// node is a directory if it has entries, else a symbolic link, a regular file
// or, as the zero value, something that is not read.
type node struct {
	entries map[string]entry
	link    string
	file    *file
}

// entry is a name in a directory. Hard links are entries with the same node.
type entry struct {
	*node
	layer int // the topmost layer that has the name or something below it
}

// file is the place and the properties of a regular file.
type file struct {
	layer  int // from 0, the lowest
	member int // of the layer's archive, from 0
	digest digest.Digest
	size   int64
}

// maxNames bounds the memory of a tree, some 200 bytes a name. Images have
// thousands of names, the largest some hundred thousand. maxName is how long one may
// be (PATH_MAX): a longer one could have as many directories as bytes.
const (
	maxNames = 1 << 20
	maxName  = 4096
)

const (
	whiteout       = ".wh."
	opaqueWhiteout = ".wh..wh..opq"
)

func newTree() *tree { return &tree{root: directory()} }

func directory() *node { return &node{entries: map[string]entry{}} }

// place adds a member of a layer's archive. file is nil if it is not a regular
// file.
func (t *tree) place(layer int, header *tar.Header, file *file) error {
	name := path.Join("/", header.Name)
	switch {
	case name == "/":
		return nil
	case len(name) > maxName:
		return fmt.Errorf("the image has a name of %d bytes", len(name))
	}

	t.names++
	dir, err := t.enter(layer, path.Dir(name))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if t.names > maxNames {
		return fmt.Errorf("the image has more than %d names", maxNames)
	}

	base := path.Base(name)
	if hidden, ok := strings.CutPrefix(base, whiteout); ok {
		if base == opaqueWhiteout {
			dir.hideAll(layer)
		} else {
			dir.hide(layer, hidden)
		}
		return nil
	}

	n, err := t.node(header, file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}

	if old, ok := dir.entries[base]; ok && old.entries != nil && n.entries != nil {
		n = old.node // Directories of several layers are merged.
	}

	dir.entries[base] = entry{n, layer}
	return nil
}

func (t *tree) node(header *tar.Header, file *file) (*node, error) {
	switch header.Typeflag {
	case tar.TypeDir:
		return directory(), nil
	case tar.TypeSymlink:
		return &node{link: header.Linkname}, nil
	case tar.TypeLink:
		target := path.Join("/", header.Linkname)
		dir, _, err := t.walk(path.Dir(target))
		if err != nil {
			return nil, fmt.Errorf("hard link to %s: %w", target, err)
		}

		// A link to a symbolic link links the link itself.
		n, ok := dir.entries[path.Base(target)]
		if !ok || n.entries != nil {
			return nil, fmt.Errorf("hard link to %s: no such file", target)
		}

		return n.node, nil
	}

	return &node{file: file}, nil
}

// enter returns the directory at name, through symbolic links. It makes missing
// directories and marks those on the way as part of layer.
func (t *tree) enter(layer int, name string) (*node, error) {
	w := walker{
		tree: t,
		missing: func(dir *node, name string) *node {
			t.names++
			n := directory()
			dir.entries[name] = entry{n, layer}
			return n
		},
		passed: func(dir *node, name string) {
			e := dir.entries[name]
			dir.entries[name] = entry{e.node, layer}
		},
	}

	n, err := w.walk(name)
	if err == nil && n.entries == nil {
		err = errors.New("is below a file that is not a directory")
	}

	return n, err
}

// hide removes the entries of lower layers under name.
func (n *node) hide(layer int, name string) {
	e, ok := n.entries[name]
	switch {
	case !ok:
	case e.layer != layer:
		delete(n.entries, name)
	case e.entries != nil:
		e.hideAll(layer)
	}
}

// hideAll removes the entries of lower layers in the directory. The order of
// the archive does not matter.
func (n *node) hideAll(layer int) {
	for name := range n.entries {
		n.hide(layer, name)
	}
}
