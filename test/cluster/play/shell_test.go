package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/test/terminal"
	"github.com/loam-os/loam/test/vm"
)

// serveBash has a shell on a terminal serve the person, in place of the machine's.
func serveBash(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}

	// A test that is started in the background of a shell without job control
	// ignores Ctrl-C, and bash could not end that for its commands.
	if signal.Ignored(os.Interrupt) {
		ignored := make(chan os.Signal, 1)
		signal.Notify(ignored, os.Interrupt)
		t.Cleanup(func() { signal.Ignore(os.Interrupt) })
	}

	s := vm.NewShell(terminal.Bash(t).User)
	end, err := serveShell(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(limit(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
}

// limit returns a context that ends in a minute: a shell that hangs is a failure
// then.
func limit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// typed returns a file with a text.
func typed(t *testing.T, text string) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestACommandReadsTheStandardInput(t *testing.T) {
	serveBash(t)
	for _, test := range []struct {
		name, command, in, want string
	}{
		{"of a command", "tr a-z A-Z", "hello\n", "HELLO\n"},
		{"with commands", "", "echo one\necho two\n", "one\ntwo\n"},
		{"that is empty", "cat; echo end", "", "end\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			err := shell(limit(t), strings.Fields(test.command), typed(t, test.in), &out)
			if err != nil || out.String() != test.want {
				t.Errorf("%q, %v, want %q", &out, err, test.want)
			}
		})
	}
}

func TestTheShellIsFreeAfterACommandThatIsGivenUp(t *testing.T) {
	serveBash(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(limit(t))
	go func() {
		defer cancel()
		_, _ = os.ReadFile(fifo) // until the command has begun
	}()

	var out strings.Builder
	err := shell(ctx, []string{"echo >" + fifo + "; sleep 3600"}, typed(t, ""), &out)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	err = shell(limit(t), []string{"echo free"}, typed(t, ""), &out)
	if err != nil || out.String() != "free\n" {
		t.Errorf("%q, %v", &out, err)
	}
}
