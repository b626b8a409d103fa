package durable

import (
	"errors"
	"fmt"
	"os"
	"path"
	"sync"

	"golang.org/x/sys/unix"
)

// spareShare is how much of what is free a new spare may take: one part of it.
const spareShare = 8

// pieces is how many files a spare has. Each is room for one record.
const pieces = 64

// Spare keeps room on a file system, as files without content of use. A disk that
// other programs have filled must not keep the node from recording what it has
// done: a [Dir] then writes a record into one of the files, and gives it the name of
// the record. So none of the room is free in between, as a program that writes all
// the time would take it first. Its methods may be called by several goroutines.
type Spare struct {
	root *os.Root
	name string
	// size is that of a piece.
	size int64

	mu    sync.Mutex
	given chan struct{}
}

// NewSpare returns the spare of size bytes in root, whose files have that name with
// a number. [Spare.Keep] makes them.
func NewSpare(root *os.Root, name string, size int64) *Spare {
	return &Spare{
		root:  root,
		name:  name,
		size:  size / pieces,
		given: make(chan struct{}, 1),
	}
}

// Given receives a value when some of the spare was given up.
func (s *Spare) Given() <-chan struct{} { return s.given }

// piece returns the name of a piece.
func (s *Spare) piece(i int) string { return fmt.Sprintf("%s.%d", s.name, i) }

// Keep makes what is absent of the spare, and reports whether all of it is there.
// On a file system with little room it makes none.
func (s *Spare) Keep() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	// Earlier versions had one file.
	if err := s.root.Remove(s.name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("keep room: %w", err)
	}

	var absent []string
	for i := range pieces {
		info, err := s.root.Lstat(s.piece(i))
		if err != nil || !info.Mode().IsRegular() || info.Size() != s.size {
			absent = append(absent, s.piece(i))
		}
	}
	if absent == nil {
		return true, nil
	}

	room, err := s.room()
	if err != nil || room < spareShare*s.size*int64(len(absent)) {
		return false, err
	}
	for _, name := range absent {
		if err := s.keep(name); err != nil {
			return false, err
		}
	}
	return true, nil
}

// keep makes a piece.
func (s *Spare) keep(name string) error {
	f, err := s.root.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("keep room: %w", err)
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, s.size); err != nil {
		err = fmt.Errorf("keep room in %s: %w", name, err)
		return errors.Join(err, f.Close(), s.root.Remove(name))
	}
	return f.Close()
}

// room returns how many bytes of the file system are free.
func (s *Spare) room() (int64, error) {
	dir, err := s.root.Open(".")
	if err != nil {
		return 0, fmt.Errorf("look for room: %w", err)
	}
	defer dir.Close()

	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil {
		return 0, fmt.Errorf("look for room: %w", err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// has reports whether there is a piece for a record of size bytes.
func (s *Spare) has(size int) bool {
	if s == nil || int64(size) > s.size {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range pieces {
		if info, err := s.root.Lstat(s.piece(i)); err == nil && info.Size() == s.size {
			return true
		}
	}
	return false
}

// lend gives a piece the name temp in dir, which must not exist. It returns an
// error if there is no piece, or if dir is on another file system.
func (s *Spare) lend(dir *os.File, temp string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, err := s.root.Open(".")
	if err != nil {
		return err
	}
	defer from.Close()

	for i := range pieces {
		err = unix.Renameat2(int(from.Fd()), s.piece(i), int(dir.Fd()), path.Base(temp),
			unix.RENAME_NOREPLACE)
		if !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("take room for %s: %w", temp, err)
	}
	s.tell()
	return nil
}

// give gives all of the spare up, and reports whether there was any.
func (s *Spare) give() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	given := false
	for i := range pieces {
		if err := s.root.Remove(s.piece(i)); err == nil {
			given = true
		}
	}
	if !given {
		return false
	}

	// ext4 frees the blocks when its journal has the removal.
	if dir, err := s.root.Open("."); err == nil {
		_ = unix.Syncfs(int(dir.Fd()))
		dir.Close()
	}
	s.tell()
	return true
}

// tell says that some of the spare was given up.
func (s *Spare) tell() {
	select {
	case s.given <- struct{}{}:
	default:
	}
}

// WithSpare has d use the spare when a record does not fit. It returns d.
func (d *Dir) WithSpare(s *Spare) *Dir {
	d.spare = s
	return d
}

// withRoom calls write. If the file system is full, it calls inSpare, which writes
// the same into a piece of the spare; nil for what is not a file. If that does not
// do, the spare is given up for another write.
func (s *Spare) withRoom(write, inSpare func() error) error {
	err := write()
	if !isFull(err) {
		return err
	}

	if inSpare != nil {
		again := inSpare()
		switch {
		case again == nil:
			return nil
		case !isFull(again): // Such as a record on another file system.
			return err
		}
	}
	if s.give() {
		return write()
	}
	return err
}

func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
