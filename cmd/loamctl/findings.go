package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// checkAll checks each of the paths, writes the verdicts of the valid ones to
// out and the faults of the others to notes, each with its file at the beginning
// of the line. The error counts the paths with faults.
func checkAll(
	paths []string, out, notes io.Writer, check func(path string) (verdict string, err error),
) error {
	wrong := 0
	for _, path := range paths {
		verdict, err := check(path)
		if err == nil {
			if _, err := io.WriteString(out, verdict); err != nil {
				return err
			}
			continue
		}

		// The content of a file that cannot be read is not what is wrong.
		_, unread := errors.AsType[*fs.PathError](err)
		if unread && len(paths) == 1 {
			return err
		}

		wrong++
		if _, err := fmt.Fprintln(notes, hint.Text(err)); err != nil {
			return err
		}
	}

	switch {
	case wrong == 0:
		return nil
	case len(paths) == 1:
		return fault.With(fmt.Errorf("%s is not valid", paths[0]), fault.DocumentInvalid)
	}
	return fault.With(
		fmt.Errorf("%d of %d are not valid", wrong, len(paths)), fault.DocumentInvalid,
	)
}

// invalid adds to the faults of a document, which have a line each, the name of
// the document.
func invalid(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s is not valid:\n%w", path, err)
}
