package limits

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// spareFiles are enough to replace a file of the status: the directories on the way
// to it, and the temporary file.
const spareFiles = 8

// Spare keeps a few files open, so that a process without room for another one can
// still say so. It is for one goroutine.
type Spare struct{ files []*os.File }

// Keep opens the files.
func (s *Spare) Keep() error {
	for len(s.files) < spareFiles {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return fmt.Errorf("keep room for open files: %w", err)
		}
		s.files = append(s.files, f)
	}
	return nil
}

// Close gives the room back.
func (s *Spare) Close() {
	for _, f := range s.files {
		f.Close()
	}
	s.files = nil
}

// Do calls write, and once more with the spare room if no file can be opened.
func (s *Spare) Do(write func() error) error {
	err := write()
	if !errors.Is(err, unix.EMFILE) {
		return err
	}

	s.Close()
	err = write()
	_ = s.Keep() // Others may have taken the room; what is kept is kept.
	return err
}
