package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Partial is a file that is filled in any order. After a power cut it has any
// part of what was written since the last Sync, so its writer must compare what
// is there.
type Partial struct {
	dir  *Dir
	name string
	file *os.File
}

// Partial opens the file name with these permission bits, or creates it. What the
// file has beyond size bytes is cut off. The caller syncs the directory, and must
// call Close.
func (d *Dir) Partial(name string, size int64, mode fs.FileMode) (*Partial, error) {
	p := &Partial{dir: d, name: name}
	if err := p.open(size, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", name, err), p.Close())
	}
	return p, nil
}

func (p *Partial) open(size int64, mode fs.FileMode) error {
	dir, err := p.dir.open(path.Dir(p.name))
	if err != nil {
		return err
	}
	defer dir.Close()

	info, err := p.dir.root.Lstat(p.name)
	if errors.Is(err, fs.ErrNotExist) {
		if err := p.dir.step(Step{Op: Create, Name: p.name}); err != nil {
			return err
		}
		p.file, err = openAt(dir, p.name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
		if err != nil {
			return err
		}
		info, err = p.file.Stat()
	} else if err == nil && info.Mode().IsRegular() {
		p.file, err = openAt(dir, p.name, unix.O_RDWR)
	} else if err == nil {
		err = errors.New("it is not a regular file")
	}
	if err != nil || (info.Mode() == mode && info.Size() <= size) {
		return err
	}

	if err := p.dir.step(Step{Op: Write, Name: p.name}); err != nil {
		return err
	}
	if info.Size() > size {
		err = p.file.Truncate(size)
	}
	return errors.Join(err, p.file.Chmod(mode))
}

// ReadAt implements [io.ReaderAt].
func (p *Partial) ReadAt(b []byte, off int64) (int, error) { return p.file.ReadAt(b, off) }

// WriteAt implements [io.WriterAt].
func (p *Partial) WriteAt(b []byte, off int64) (int, error) {
	if err := p.dir.step(Step{Op: Append, Name: p.name}); err != nil {
		return 0, err
	}
	return p.file.WriteAt(b, off)
}

// Sync makes the content durable.
func (p *Partial) Sync() error {
	if err := p.dir.step(Step{Op: SyncFile, Name: p.name}); err != nil {
		return err
	}
	if err := p.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", p.name, err)
	}
	return nil
}

// Close closes the file.
func (p *Partial) Close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}
