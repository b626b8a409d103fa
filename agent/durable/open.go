package durable

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// LinkError means that a directory on the way to a name is a symbolic link that
// the image does not have: what is below it is somewhere else. Nothing was
// changed there.
type LinkError struct {
	// Dir is the link, relative to the root.
	Dir string
}

func (e *LinkError) Error() string { return e.Dir + ": the directory was replaced by a link" }

// WithImage has d follow the links between directories that the image has, such
// as /opt -> var/opt. Without it, d follows none. It returns d.
func (d *Dir) WithImage(image fs.FS) *Dir {
	d.image = image
	return d
}

// Reach returns a [*LinkError] if the directory of name, as far as it exists,
// is behind a link that d does not follow.
func (d *Dir) Reach(name string) error {
	dir, err := d.open(path.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return dir.Close()
}

// open opens the directory name. It follows only links of the image, whatever
// other processes do to the directories meanwhile. What is then done below the
// descriptor is done in that directory, even if its name leads elsewhere.
func (d *Dir) open(name string) (*os.File, error) {
	f, err := d.openNoLinks(name)
	if !errors.Is(err, unix.ELOOP) {
		return f, err
	}

	resolved, err := d.resolve(name)
	if err != nil {
		return nil, err
	}

	f, err = d.openNoLinks(resolved)
	if errors.Is(err, unix.ELOOP) { // It came after the look of resolve.
		return nil, &LinkError{Dir: name}
	}
	return f, err
}

// openNoLinks opens the directory name; ELOOP if a part of it is a link
// (openat2(2)).
func (d *Dir) openNoLinks(name string) (*os.File, error) {
	top, err := d.root.Open(".")
	if err != nil || name == "." {
		return top, err
	}
	defer top.Close()

	fd, err := unix.Openat2(int(top.Fd()), name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// maxLinks is how many links of the image a name may lead through, as in the
// kernel (path_resolution(7)).
const maxLinks = 40

// resolve returns what the directory name is without the links of the image,
// which need not lead to something that exists. Any other link is a
// [*LinkError].
func (d *Dir) resolve(name string) (string, error) {
	resolved := "."
	rest := name
	for links := 0; rest != ""; {
		part, after, _ := strings.Cut(rest, "/")
		rest = after

		next := path.Join(resolved, part)
		if next == ".." { // The root is its own parent.
			next = "."
		}
		target, isLink, err := readLink(d.root.FS(), next)
		if err != nil {
			return "", err
		}
		if !isLink {
			resolved = next
			continue
		}

		links++
		own, err := d.ofImage(next, target)
		if err != nil {
			return "", err
		}
		if !own || links > maxLinks {
			return "", &LinkError{Dir: next}
		}

		if strings.HasPrefix(target, "/") {
			resolved = "."
		}
		rest = strings.TrimLeft(target, "/") + "/" + rest
	}
	return resolved, nil
}

// ofImage reports whether the image has the link name with this target.
func (d *Dir) ofImage(name, target string) (bool, error) {
	if d.image == nil {
		return false, nil
	}
	own, isLink, err := readLink(d.image, name)
	return isLink && path.Clean(own) == path.Clean(target), err
}

// readLink returns the target of a link, and whether name is one.
func readLink(fsys fs.FS, name string) (target string, isLink bool, err error) {
	target, err = fs.ReadLink(fsys, name)
	switch {
	case err == nil:
		return target, true, nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, fs.ErrInvalid),
		errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return "", false, nil
	}
	return "", false, err
}

// openAt opens the file name of the directory dir itself, not what a link of
// that name leads to.
func openAt(dir *os.File, name string, flags int) (*os.File, error) {
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(int(dir.Fd()), path.Base(name), flags, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// existsAt reports whether the directory dir has the name.
func existsAt(dir *os.File, name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), path.Base(name), &st, unix.AT_SYMLINK_NOFOLLOW)
	return !errors.Is(err, fs.ErrNotExist)
}

// removeAt deletes the file, link or empty directory name of the directory dir.
func removeAt(dir *os.File, name string) error {
	err := unix.Unlinkat(int(dir.Fd()), path.Base(name), 0)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(int(dir.Fd()), path.Base(name), unix.AT_REMOVEDIR)
	}
	return err
}
