package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/loam-os/loam/test/vm"
)

// quit is Ctrl-].
const quit = 0x1d

// serveShell connects clients to the shell, one after the other. end is closed
// when the machine is off, which ends the last of them.
func serveShell(s *vm.Shell) (end func(), err error) {
	_ = os.Remove(shellFile) // of a session that was killed
	l, err := net.Listen("unix", shellFile)
	if err != nil {
		return nil, fmt.Errorf("listen for a person's shell: %w", err)
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if err := s.Join(conn); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}()

	return func() {
		l.Close()
		<-done
	}, nil
}

// shell gives the terminal to the person, or runs a command on the node, which
// reads in, and prints what it writes. Without a terminal and a command, in has the
// commands.
func shell(ctx context.Context, command []string, in *os.File, out io.Writer) error {
	conn, err := net.Dial("unix", shellFile)
	if err != nil {
		return fmt.Errorf("%w\n"+
			"hint: `make cluster` or `make worker` has to run in this directory, with its Node Ready", err)
	}
	defer conn.Close()

	s := vm.NewShell(conn)
	open, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()

	if err := s.Open(open); err != nil {
		return errors.Join(err,
			errors.New("hint: one at a time: is the shell open in another terminal?"))
	}

	words := strings.Join(command, " ")
	switch isTerminal := term.IsTerminal(int(in.Fd())); {
	case isTerminal && words == "":
		return attach(s)
	case isTerminal:
		return s.Stream(ctx, words, in, out)
	}

	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	return s.Stream(ctx, vm.WithInput(cmp.Or(words, "bash"), text), nil, out)
}

// attach makes this terminal the shell's until Ctrl-].
func attach(s *vm.Shell) error {
	fd := int(os.Stdin.Fd())
	fmt.Println("This is a shell on the node. Ctrl-] leaves it.")
	saved, err := term.MakeRaw(fd)
	if err != nil {
		return err
	}
	defer term.Restore(fd, saved)
	return s.Attach(os.Stdin, os.Stdout, quit)
}
