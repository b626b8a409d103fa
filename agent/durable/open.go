package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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

// tree is a directory tree. What is found in it is behind no link but those of an
// image.
type tree struct {
	root *os.Root
	// image has the links that are followed; nil for none.
	image fs.FS
}

// Root returns the tree, for reading.
func (t tree) Root() *os.Root { return t.root }

// WithImage has d follow the links between directories that the image has, such
// as /opt -> var/opt. Without it, d follows none. It returns d.
func (d *Dir) WithImage(image fs.FS) *Dir {
	d.image = image
	return d
}

// Reach returns a [*LinkError] if the directory of name, as far as it exists,
// is behind a link that is not followed.
func (t tree) Reach(name string) error {
	dir, err := t.open(path.Dir(name))
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
func (t tree) open(name string) (*os.File, error) {
	f, err := t.openNoLinks(name)
	if !errors.Is(err, unix.ELOOP) {
		return f, err
	}

	resolved, err := t.resolve(name)
	if err != nil {
		return nil, err
	}

	f, err = t.openNoLinks(resolved)
	if errors.Is(err, unix.ELOOP) { // It came after the look of resolve.
		return nil, &LinkError{Dir: name}
	}
	return f, err
}

// openNoLinks opens the directory name; ELOOP if a part of it is a link
// (openat2(2)).
func (t tree) openNoLinks(name string) (*os.File, error) {
	top, err := t.root.Open(".")
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
func (t tree) resolve(name string) (string, error) {
	resolved := "."
	rest := name
	for links := 0; rest != ""; {
		part, after, _ := strings.Cut(rest, "/")
		rest = after

		next := path.Join(resolved, part)
		if next == ".." { // The root is its own parent.
			next = "."
		}
		target, isLink, err := readLink(t.root.FS(), next)
		if err != nil {
			return "", err
		}
		if !isLink {
			resolved = next
			continue
		}

		links++
		own, err := t.ofImage(next, target)
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
func (t tree) ofImage(name, target string) (bool, error) {
	if t.image == nil {
		return false, nil
	}
	own, isLink, err := readLink(t.image, name)
	return isLink && path.Clean(own) == path.Clean(target), err
}

// equal reports whether name is a file with these bytes and permission bits.
func (t tree) equal(name string, data []byte, mode fs.FileMode) bool {
	info, err := t.root.Lstat(name)
	if err != nil || info.Mode() != mode || info.Size() != int64(len(data)) {
		return false
	}

	f, err := t.FS().Open(name)
	if err != nil {
		return false
	}
	defer f.Close()

	// It may be a larger file by now.
	have, err := io.ReadAll(io.LimitReader(f, int64(len(data))+1))
	return err == nil && bytes.Equal(have, data)
}

// withLine returns the content of the file name, if it exists, with one more line.
func (t tree) withLine(name string, line []byte) ([]byte, error) {
	text, err := t.root.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	return append(append(text, line...), '\n'), nil
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

// removeAllAt deletes the name of the directory dir and everything below it.
func removeAllAt(dir *os.File, name string) error {
	parent, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	if err := errors.Join(parent.RemoveAll(path.Base(name)), parent.Close()); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}
