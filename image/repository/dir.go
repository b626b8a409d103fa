package repository

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// dirStore is a directory. Links cannot lead out of it: it may be on a USB disk
// of unknown origin.
type dirStore struct{ path string }

func openDir(path string) (Store, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("repository: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("repository %s: not a directory", path)
	}

	path, err = filepath.Abs(path)
	return dirStore{path}, err
}

func (d dirStore) Get(_ context.Context, name string, limit int64) ([]byte, error) {
	f, err := d.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	data, err := readAll(f, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}

	return data, nil
}

func (d dirStore) Range(_ context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if err := checkRange(name, off, n); err != nil {
		return nil, err
	}

	f, err := d.open(name)
	if err != nil {
		return nil, err
	}

	info, err := f.Stat()
	if err == nil && info.Size() < off+n {
		err = fmt.Errorf("%s: %d bytes at %d of %d: %w", name, n, off, info.Size(), ErrRange)
	}

	if err == nil {
		_, err = f.Seek(off, io.SeekStart)
	}

	if err != nil {
		f.Close()
		return nil, err
	}

	return &exactly{f, n}, nil
}

// open opens a regular file: anything else might be read for ever.
func (d dirStore) open(name string) (*os.File, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}

	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, fmt.Errorf("repository: %w", err)
	}
	defer root.Close()

	info, err := root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s in %s: %w", name, d.path, ErrNotFound)
	}

	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s in %s: not a regular file", name, d.path)
	}

	if err != nil {
		return nil, err
	}

	return root.Open(filepath.FromSlash(name))
}
