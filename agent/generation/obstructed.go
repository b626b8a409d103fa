package generation

import (
	"io/fs"
	"path"
)

// Obstructed returns an *Error if the node has, at or above a new path of m, a
// file that belongs neither to the image nor to have and cannot be replaced: a
// directory in place of a file, another file in place of a directory, or a link
// that leads out of the directory.
func Obstructed(node, image fs.FS, entries []Entry, have Manifest) error {
	o := obstacles{node: node, image: image, known: map[string]bool{"/": true}}
	for _, dir := range have.Dirs {
		o.known[dir] = true
	}

	managed := map[string]Entry{}
	for _, e := range have.Entries {
		managed[e.Path] = e
	}

	for _, e := range entries {
		if managed[e.Path] == e {
			continue
		}

		for _, dir := range dirsAbove(e.Path) {
			if managed[dir].Path != "" {
				break // A managed file or link becomes a directory.
			}
			if err := o.above(dir); err != nil {
				return err
			}
		}

		info, err := fs.Lstat(node, e.Path[1:])
		if err == nil && info.IsDir() && !o.known[e.Path] {
			return &Error{
				Path:    e.Path,
				Problem: "the node has a directory there",
				Hint:    "choose another path, or move the directory away",
			}
		}
	}

	return nil
}

type obstacles struct {
	node, image fs.FS
	// known are directories that were checked.
	known map[string]bool
}

func (o obstacles) above(dir string) error {
	if o.known[dir] {
		return nil
	}

	info, err := fs.Lstat(o.node, dir[1:])
	if err == nil && !info.IsDir() && info.Mode()&fs.ModeSymlink == 0 {
		return &Error{
			Path:    dir,
			Problem: "the node has a file in place of a directory",
			Hint:    "choose another path, or move the file away",
		}
	}
	return o.link(dir)
}

// link returns an *Error if dir is a link that the image does not have.
func (o obstacles) link(dir string) error {
	if o.known[dir] {
		return nil
	}

	info, err := fs.Lstat(o.node, dir[1:])
	if err == nil && info.Mode()&fs.ModeSymlink != 0 && !o.ofImage(dir) {
		return replacedByLink(dir)
	}

	o.known[dir] = true
	return nil
}

// replacedByLink is the error of a path below dir. Pods can write to some
// directories above managed paths.
func replacedByLink(dir string) *Error {
	return &Error{
		Path:    dir,
		Problem: "the directory was replaced by a link",
		Hint:    "write the path that it leads to, or remove the link",
	}
}

// ofImage reports whether a link is the image's, or continues one of the image:
// /opt is one to /var/opt.
func (o obstacles) ofImage(dir string) bool {
	target, err := fs.ReadLink(o.node, dir[1:])
	own, ownErr := fs.ReadLink(o.image, dir[1:])
	return err == nil && ownErr == nil && path.Clean(target) == path.Clean(own)
}
