package publish

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// File is a file of a repository, as the signed metadata describe it. SHA256 is
// in hex.
type File struct {
	// Name is relative to the repository, with slashes.
	Name   string
	Size   int64
	SHA256 string
}

// Size returns how many bytes files have.
func Size(files []File) int64 {
	all := int64(0)
	for _, f := range files {
		all += f.Size
	}
	return all
}

// In reports whether the file is in the repository in dir, intact. It writes the
// bytes that it reads to count, too.
func (f File) In(dir string, count io.Writer) bool {
	return f.checkAt(filepath.Join(dir, f.Name), count) == nil
}

// checkAt compares the file at path with f.
func (f File) checkAt(path string, count io.Writer) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: missing; want SHA-256 %s", f.Name, f.SHA256)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: not a regular file", f.Name)
	case info.Size() != f.Size:
		return fmt.Errorf("%s: %d bytes; want %d bytes", f.Name, info.Size(), f.Size)
	}

	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()

	return f.check(io.TeeReader(file, count))
}

// check compares the rest of r with f.
func (f File) check(r io.Reader) error {
	sum := sha256.New()
	size, err := io.Copy(sum, r)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}

	have := hex.EncodeToString(sum.Sum(nil))
	if size != f.Size || have != f.SHA256 {
		return fmt.Errorf("%s: %d bytes, SHA-256 %s; want %d bytes, %s",
			f.Name, size, have, f.Size, f.SHA256)
	}

	return nil
}

// Copy replaces the file to by the file at from, completely or not at all: what
// is not f, or does not read back as f, never gets the name. It writes as many bytes
// to count as f has: half of them while it writes, half while it reads back.
func (f File) Copy(to, from string, count io.Writer) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()

	return replace(to, func(tmp *os.File) error {
		if err := f.check(io.TeeReader(src, io.MultiWriter(tmp, half{count, 0}))); err != nil {
			return err
		}
		if err := errors.Join(tmp.Chmod(0o644), tmp.Sync()); err != nil {
			return err
		}

		// Read back what the disk has, not the memory. Best effort.
		_ = unix.Fadvise(int(tmp.Fd()), 0, 0, unix.FADV_DONTNEED)
		if _, err := tmp.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if err := f.check(io.TeeReader(tmp, half{count, 1})); err != nil {
			return fmt.Errorf("read back: %w", err)
		}

		return nil
	})
}

// half passes on half of the bytes of each write: of 2n+1 bytes it takes n, and the
// odd one if odd is 1.
type half struct {
	to  io.Writer
	odd int
}

// Write implements [io.Writer].
func (h half) Write(b []byte) (int, error) {
	if _, err := h.to.Write(b[:(len(b)+h.odd)/2]); err != nil {
		return 0, err
	}
	return len(b), nil
}

// describe returns the file with that name and content.
func describe(name string, content []byte) File {
	sum := sha256.Sum256(content)
	return File{name, int64(len(content)), hex.EncodeToString(sum[:])}
}

// writeFile replaces file: temporary, fsync, rename, fsync of the directory.
func writeFile(file string, data []byte, mode os.FileMode) error {
	return replace(file, func(tmp *os.File) error {
		_, err := tmp.Write(data)
		return errors.Join(err, tmp.Chmod(mode))
	})
}

// linkFile gives the file at from its name in the repository in dir as well, or
// makes a copy on another file system. A file that differs from f never gets
// the name. count gets as many bytes as f has.
func linkFile(f File, dir, from string, count io.Writer) error {
	to := filepath.Join(dir, f.Name)
	tmp := to + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if os.Link(from, tmp) != nil {
		return f.Copy(to, from, count)
	}
	defer os.Remove(tmp) // not there any more after the rename

	if err := f.checkAt(tmp, count); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}

	return errors.Join(os.Rename(tmp, to), syncDir(filepath.Dir(to)))
}

func replace(file string, write func(*os.File) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // not there any more after the rename

	if err := errors.Join(write(tmp), tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}

	return errors.Join(os.Rename(tmp.Name(), file), syncDir(filepath.Dir(file)))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
