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
type Spare struct {
	files []*os.File
	// kept says that files are to be kept.
	kept bool
}

// Keep opens the files.
func (s *Spare) Keep() error {
	s.kept = true
	return s.fill()
}

// fill opens those that are not open.
func (s *Spare) fill() error {
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
	s.kept = false
	s.empty()
}

func (s *Spare) empty() {
	for _, f := range s.files {
		f.Close()
	}
	s.files = nil
}

// Do calls write, and once more with the spare room if no file can be opened.
// Others may take that room meanwhile, so the next calls try to have it again.
func (s *Spare) Do(write func() error) error {
	err := write()
	if errors.Is(err, unix.EMFILE) {
		s.empty()
		err = write()
	}
	if s.kept {
		_ = s.fill() // What is there is kept.
	}
	return err
}
