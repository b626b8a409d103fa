package durable

import (
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// FS reads below the root. It never waits: a pod can put a FIFO in the place of a
// file, which then has nothing in it.
func (t tree) FS() fs.FS { return reader{t.root.FS().(rootFS), t.root} }

// rootFS is what the file system of an [os.Root] can do.
type rootFS interface {
	fs.ReadDirFS
	fs.StatFS
	fs.ReadLinkFS
}

type reader struct {
	rootFS
	root *os.Root
}

func (r reader) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	opened, err := r.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err // A nil pointer in an interface is not nil.
	}
	return opened, nil
}

func (r reader) ReadFile(name string) ([]byte, error) {
	opened, err := r.Open(name)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	return io.ReadAll(opened)
}
