package source

import (
	"os"
	"path/filepath"
	"strings"
)

// step is one step of a path lookup: the entry name in the directory dir, whose
// path has no links.
type step struct{ dir, name string }

// maxLinks is how many links the kernel follows in one path
// (path_resolution(7)).
const maxLinks = 40

// steps returns the steps by which the absolute path is looked up, up to the
// first missing entry. If the file changes, so does one of these entries.
func steps(path string) []step {
	var taken []step
	dir := "/"
	rest := split(path)
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			dir = filepath.Dir(dir)
			continue
		}

		taken = append(taken, step{dir, name})
		full := filepath.Join(dir, name)
		info, err := os.Lstat(full)
		switch {
		case err != nil:
			return taken
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(full)
			links++
			if err != nil || links > maxLinks {
				return taken
			}
			if filepath.IsAbs(target) {
				dir = "/"
			}
			rest = append(split(target), rest...)
		case info.IsDir():
			dir = full
		default:
			return taken
		}
	}

	return taken
}

// split returns the parts of path without empty ones and ".".
func split(path string) []string {
	var parts []string
	for part := range strings.SplitSeq(path, "/") {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	return parts
}
