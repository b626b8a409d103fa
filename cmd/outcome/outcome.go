// Package outcome ends the commands: it runs one, prints its error in the same
// form for all of them, and returns the exit status. [Run] is the whole of a main
// function.
package outcome

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/redact"
)

// Statuses is the paragraph about exit statuses in the help of a program.
const Statuses = `Exit status: 0 done; 1 failed; 2 the command line is wrong; 3 refused, and nothing
was changed; 4 an agent or a server does not answer; 5 there is something to do
('loam plan --exit-code'); 130 interrupted. An error has a code, which
docs/reference/errors.md explains; with -o json it is a JSON object on standard
error.`

// ErrToDo is not an error: a command that ends with it prints nothing more, and
// has the exit status [fault.ExitToDo].
var ErrToDo = errors.New("there is something to do")

// User is who reads the errors of a command.
type User struct {
	Stderr io.Writer
	UID    int
}

// Self returns the user of this process.
func Self() User { return User{os.Stderr, os.Geteuid()} }

// Run runs the command that args name below root, and returns the exit status of
// the program.
func Run(ctx context.Context, root *cobra.Command, args []string, user User) int {
	cmd := root
	helpErr := watchHelp(root)
	err := usage.Check(root, args)
	if err == nil {
		root.SetArgs(args)
		cmd, err = root.ExecuteContextC(ctx)
	}
	if err == nil {
		err = *helpErr
	}

	switch {
	case err == nil:
		return fault.ExitDone
	case errors.Is(err, ErrToDo):
		return fault.ExitToDo
	case ctx.Err() != nil || fault.Of(err) == fault.Interrupted:
		// A tool that was interrupted ends with an error of its own.
		err = interrupted{err}
	}

	if fault.Of(err) == fault.Usage && len(hint.All(err)) == 0 {
		err = hint.With(err, "`%s --help` says what it takes", cmd.CommandPath())
	}
	r := user.describe(err)
	if wantsJSON(cmd, args) {
		r.writeJSON(user.Stderr)
	} else {
		r.writeText(user.Stderr, root.Name(), err)
	}
	return r.Class.ExitStatus()
}

// watchHelp has help set an error if it cannot be written: cobra drops it.
func watchHelp(root *cobra.Command) *error {
	var failed error
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		to := cmd.OutOrStdout()
		var text bytes.Buffer
		cmd.SetOut(&text)
		help(cmd, args)
		cmd.SetOut(to)
		_, failed = to.Write(text.Bytes())
	})
	return &failed
}

// interrupted is any error of a command that was interrupted.
type interrupted struct{ error }

// words are how packages context and os/signal say that a signal came.
var words = strings.NewReplacer(
	context.Canceled.Error(), "interrupted",
	unix.SIGINT.String()+" signal received", "interrupted",
	unix.SIGTERM.String()+" signal received", "interrupted",
)

// Error implements error, in the words of an operator.
func (i interrupted) Error() string { return words.Replace(i.error.Error()) }

// FaultCode implements [fault.Coder]. There is no Unwrap method: no other code
// counts.
func (interrupted) FaultCode() fault.Code { return fault.Interrupted }

// Hints implements [hint.Hinted].
func (i interrupted) Hints() []string { return hint.All(i.error) }

// report is an error for a program that reads the output of a command.
type report struct {
	Code    fault.Code  `json:"code"`
	Class   fault.Class `json:"class"`
	Message string      `json:"message"`
	Hint    string      `json:"hint,omitempty"`
	// Mistakes are what is wrong with documents, one by one. Message and Hint have
	// all of it, too.
	Mistakes document.Errors `json:"mistakes,omitempty"`

	// general is the hint of the code, "" if the error itself has one.
	general string
}

// describe returns what an error says. The general hint of its code takes the
// place of a missing one.
func (u User) describe(err error) report {
	code := fault.Of(err)
	if code == fault.Failed && errors.Is(err, exec.ErrNotFound) {
		code = fault.ToolMissing
	}

	r := report{
		Code:     code,
		Class:    code.Class(),
		Mistakes: mistakesOf(err),
	}
	hints := hint.All(err)
	r.Message, hints = apart(err.Error(), hints, r.Mistakes)

	isRoot := code == fault.NotPermitted && u.UID == 0
	if len(hints) == 0 && !isRoot {
		r.general = code.Hint()
	}
	r.Hint = cmp.Or(strings.Join(hints, "; "), r.general)
	return r.redacted()
}

// redacted returns the report without the passwords of URLs, which command lines and
// answers of servers may have.
func (r report) redacted() report {
	r.Message = redact.URLs(r.Message)
	r.Hint = redact.URLs(r.Hint)
	r.Mistakes = slices.Clone(r.Mistakes)
	for i := range r.Mistakes {
		m := &r.Mistakes[i]
		for _, text := range []*string{&m.File, &m.Path, &m.Problem, &m.Hint} {
			*text = redact.URLs(*text)
		}
	}
	return r
}

// apart returns the message and the hints of an error whose text has the lines of
// mistakes: for an operator, each has its hint on its line.
func apart(message string, hints []string, mistakes document.Errors) (string, []string) {
	for _, m := range mistakes {
		message = strings.Replace(message, m.Error(), m.WithoutHint(), 1)
		if m.Hint != "" && !slices.Contains(hints, m.Hint) {
			hints = append(hints, m.Hint)
		}
	}
	return message, hints
}

// mistakesOf returns the mistakes of documents in err.
func mistakesOf(err error) document.Errors {
	switch e := err.(type) {
	case document.Errors:
		return e
	case document.Error:
		return document.Errors{e}
	case interface{ Unwrap() error }:
		return mistakesOf(e.Unwrap())
	case interface{ Unwrap() []error }:
		var all document.Errors
		for _, one := range e.Unwrap() {
			all = append(all, mistakesOf(one)...)
		}
		return all
	}
	return nil
}

func (r report) writeJSON(out io.Writer) {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(r) // There is nowhere else to say it.
}

// writeText prints the error, its hints, and its code if that says more than the
// exit status.
func (r report) writeText(out io.Writer, program string, err error) {
	text := hint.Text(err)
	if r.general != "" {
		text += "\nhint: " + r.general
	}
	if r.Code.IsSpecific() {
		text += "\ncode: " + string(r.Code)
	}
	fmt.Fprintf(out, "%s: %s\n", program, redact.URLs(text))
}
