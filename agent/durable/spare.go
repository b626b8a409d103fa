package durable

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// spareShare is how much of what is free a new spare may take: one part of it.
const spareShare = 8

// Spare is a file without content of use, which keeps room on a file system. A
// [Dir] gives it up when a record does not fit: a disk that other programs have
// filled must not keep the node from recording what it has done. Its methods
// may be called by several goroutines.
type Spare struct {
	root *os.Root
	name string
	size int64

	mu    sync.Mutex
	given chan struct{}
}

// NewSpare returns the spare of size bytes with that name in root. [Spare.Keep]
// makes it.
func NewSpare(root *os.Root, name string, size int64) *Spare {
	return &Spare{
		root:  root,
		name:  name,
		size:  size,
		given: make(chan struct{}, 1),
	}
}

// Given receives a value when the spare was given up.
func (s *Spare) Given() <-chan struct{} { return s.given }

// Keep makes the spare if it is absent, and reports whether it is there. On a
// file system with little room it makes none.
func (s *Spare) Keep() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := s.root.Lstat(s.name)
	if err == nil && info.Size() == s.size {
		return true, nil
	}

	room, err := s.room()
	if err != nil || room < spareShare*s.size {
		return false, err
	}

	f, err := s.root.OpenFile(s.name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return false, fmt.Errorf("keep room: %w", err)
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, s.size); err != nil {
		err = fmt.Errorf("keep room in %s: %w", s.name, err)
		return false, errors.Join(err, f.Close(), s.root.Remove(s.name))
	}
	return true, f.Close()
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

// give gives the spare up, and reports whether there was one.
func (s *Spare) give() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.root.Remove(s.name); err != nil {
		return false
	}

	// ext4 frees the blocks when its journal has the removal.
	if dir, err := s.root.Open("."); err == nil {
		_ = unix.Syncfs(int(dir.Fd()))
		dir.Close()
	}
	select {
	case s.given <- struct{}{}:
	default:
	}
	return true
}

// WithSpare has d give up the spare when a record does not fit. It returns d.
func (d *Dir) WithSpare(s *Spare) *Dir {
	d.spare = s
	return d
}

// withRoom calls write, and once more if the file system was full and the spare
// made room.
func (d *Dir) withRoom(write func() error) error {
	err := write()
	if isFull(err) && d.spare.give() {
		return write()
	}
	return err
}

func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
