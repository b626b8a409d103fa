package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/hint"
)

// find returns the regular file at name, through links.
func (t *tree) find(name string) (*file, error) {
	n, real, err := t.walk(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, t.absent(name)
	case err != nil:
		return nil, err
	case n.entries != nil:
		return nil, hint.With(fmt.Errorf("%s is a directory", real), "it %s", has(n))
	case n.file == nil:
		return nil, fmt.Errorf("%s is not a regular file", real)
	}
	return n.file, nil
}

// absent returns [content.ErrAbsent]. The hint names files of the same name
// elsewhere, or a similar name, or the content of the last existing directory
// of name.
func (t *tree) absent(name string) error {
	if same := t.named(path.Base(name)); len(same) > 0 {
		return hint.With(content.ErrAbsent, "the image has %s", some(same))
	}

	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		n, real, err := t.walk(dir)
		if err == nil && n.entries != nil {
			missing, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(name, dir), "/"),
				"/")
			if e, ok := n.entries[missing]; ok {
				return fmt.Errorf("%w; %s is a link to %s",
					content.ErrAbsent, path.Join(real, missing), e.link)
			}
			if near := document.Nearest(missing, slices.Sorted(maps.Keys(n.entries))); near != "" {
				return hint.With(content.ErrAbsent, "did you mean %s?", path.Join(real, near))
			}
			return hint.With(content.ErrAbsent, "%s %s", real, has(n))
		}

		if dir == "/" {
			return content.ErrAbsent
		}
	}
}

// named returns the paths of regular files called base, without the paths
// through links.
func (t *tree) named(base string) []string {
	var found []string
	var search func(dir string, n *node)
	search = func(dir string, n *node) {
		for name, e := range n.entries {
			if name == base && e.file != nil {
				found = append(found, path.Join(dir, name))
			}
			search(path.Join(dir, name), e.node)
		}
	}

	search("/", t.root)
	slices.Sort(found)
	return found
}

func has(dir *node) string {
	if len(dir.entries) == 0 {
		return "is empty"
	}
	return "has " + some(slices.Sorted(maps.Keys(dir.entries)))
}

// some lists the first few names.
func some(names []string) string {
	const few = 5
	if len(names) > few {
		return strings.Join(names[:few], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}
