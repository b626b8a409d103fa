package config_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/test/files"
)

// view returns a node as programs see it: every name outside of Loam's state
// and of /run, with its content.
func (n *crashNode) view() (map[string]string, error) {
	seen := map[string]string{}
	dir := n.root.Name()
	err := fs.WalkDir(n.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if name == stateDir || name == "run" {
			return fs.SkipDir
		}
		if err != nil {
			return err
		}

		switch {
		case entry.IsDir():
			seen[name] = "directory"
		case entry.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path.Join(dir, name))
			seen[name] = "link to " + target
			if strings.HasPrefix(target, generation.Link) {
				seen[name] = fileAs(dir, name)
			}
		default:
			seen[name] = fileAs(dir, name)
		}

		return nil
	})
	return seen, err
}

func fileAs(root, name string) string {
	file, err := files.Follow(root, name)
	if err != nil {
		return err.Error()
	}
	info, err := os.Lstat(path.Join(root, file))
	if err != nil {
		return "leads nowhere"
	}
	return fmt.Sprintf("file %s %q", info.Mode(), readAs(root, file))
}

// garbage returns an error for content in the store that no generation refers
// to, and for incomplete generations.
func (n *crashNode) garbage() error {
	names, err := generation.Read(n.state.FS()).List()
	if err != nil {
		return err
	}

	used := map[string]bool{}
	for _, name := range names {
		m, err := generation.Read(n.state.FS()).Load(name)
		if err != nil {
			return err
		}
		used["generations/"+name] = true
		for _, e := range m.Entries {
			if e.Kind == generation.KindFile {
				used[fmt.Sprintf("store/sha256/%s-%04o", e.Digest, generation.Octal(e.Mode))] = true
			}
		}
		if err := n.useTree(path.Join("generations", name, "root"), used); err != nil {
			return err
		}
	}

	var left []string
	for _, dir := range []string{"generations", "store/sha256", "store/tree"} {
		for _, child := range list(path.Join(n.state.Name(), dir)) {
			if !used[path.Join(dir, child)] {
				left = append(left, path.Join(dir, child))
			}
		}
	}

	if len(left) > 0 {
		return fmt.Errorf("nothing refers to %s", left)
	}

	return nil
}

// useTree marks the directories that a link of the store leads to.
func (n *crashNode) useTree(link string, used map[string]bool) error {
	target, err := n.state.Readlink(link)
	if err != nil {
		return err
	}

	dir := path.Join(path.Dir(link), target)
	used[dir] = true
	children, err := fs.ReadDir(n.state.FS(), dir)
	for _, child := range children {
		if child.Type()&fs.ModeSymlink != 0 {
			err = errors.Join(err, n.useTree(path.Join(dir, child.Name()), used))
		}
	}
	return err
}

// differ lists where two maps are not the same, have first.
func differ(want, have map[string]string) string {
	var lines []string
	for name, text := range have {
		if old, ok := want[name]; !ok {
			lines = append(lines, fmt.Sprintf("  %s is %s and should not be", name, text))
		} else if old != text {
			lines = append(lines, fmt.Sprintf("  %s is %s, not %s", name, text, old))
		}
	}

	for name, text := range want {
		if _, ok := have[name]; !ok {
			lines = append(lines, fmt.Sprintf("  %s is not there, and should be %s", name, text))
		}
	}

	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
