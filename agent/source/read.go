package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/loam-os/loam/agent/document"
)

// File is a file of the node, which may appear, change and disappear at any
// time.
type File struct {
	// Path is absolute. Links in it are followed.
	Path string
}

// Read reads the file. The error wraps ErrAbsent if it does not exist.
func (f File) Read(context.Context) (Document, error) {
	text, err := readFile(f.Path)
	return asDocument(f.Path, text, err)
}

// readFile reads a regular file of at most document.MaxSize bytes.
func readFile(path string) ([]byte, error) {
	// O_NONBLOCK, so that opening a FIFO does not wait for a writer.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}

	if err != nil {
		return nil, err
	}

	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}

	return readLimited(file)
}

// readLimited reads at most document.MaxSize bytes; more is an error.
func readLimited(from io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, document.MaxSize+1))
	if err != nil {
		return nil, err
	}
	if len(text) > document.MaxSize {
		return nil, fmt.Errorf("more than %d bytes", document.MaxSize)
	}
	return text, nil
}
