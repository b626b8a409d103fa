package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/cmd/loamctl/show"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// finding is what the check of a document found.
type finding struct {
	show.Verdict

	// warnings is the text of the warnings, nil for none. fault is why the
	// document is not valid.
	warnings, fault error
}

// findingOf returns the finding about a document without warnings: a node
// accepts it if err is nil.
func findingOf(path string, err error, summary ...string) finding {
	return finding{
		Verdict: show.Verdict{
			Path:    path,
			Valid:   err == nil,
			Summary: summary,
			Faults:  show.Faults(err),
		},
		fault: err,
	}
}

// checker checks documents.
type checker struct {
	format string

	// check checks one, and text is the verdict on a valid one.
	check func(path string) finding
	text  func(show.Verdict) string
}

// run checks the document at each of the paths, and shows all verdicts. The
// error counts the paths with faults.
func (c checker) run(cmd *cobra.Command, paths []string) error {
	var all []finding
	wrong := 0
	for _, path := range paths {
		f := c.check(path)

		// The content of a file that cannot be read is not what is wrong.
		_, unread := errors.AsType[*fs.PathError](f.fault)
		if unread && len(paths) == 1 {
			return f.fault
		}
		if !f.Valid {
			wrong++
		}
		all = append(all, f)
	}

	if err := c.show(cmd.OutOrStdout(), cmd.ErrOrStderr(), all); err != nil {
		return err
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

// show writes what was found. As JSON, all of it goes to out. As text, the
// verdicts on valid documents go to out, faults and warnings to notes, each with
// its file at the beginning of the line.
func (c checker) show(out, notes io.Writer, all []finding) error {
	if c.format != "text" {
		verdicts := make([]show.Verdict, len(all))
		for i, f := range all {
			verdicts[i] = f.Verdict
		}
		return outcome.Write(out, c.format, verdicts, nil)
	}

	for _, f := range all {
		for _, err := range []error{f.warnings, f.fault} {
			if err == nil {
				continue
			}
			if _, err := fmt.Fprintln(notes, hint.Text(err)); err != nil {
				return err
			}
		}
		if !f.Valid {
			continue
		}
		if _, err := io.WriteString(out, c.text(f.Verdict)); err != nil {
			return err
		}
	}
	return nil
}

// invalid adds to the faults of a document, which have a line each, the name of
// the document.
func invalid(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s is not valid:\n%w", path, err)
}
