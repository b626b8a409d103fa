package main

import (
	"context"
	"errors"
	"fmt"
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
			s.Join(conn)
		}
	}()

	return func() {
		l.Close()
		<-done
	}, nil
}

// shell gives the terminal to the person, or runs a command on the node and
// prints what it writes.
func shell(ctx context.Context, command []string) error {
	conn, err := net.Dial("unix", shellFile)
	if err != nil {
		return fmt.Errorf("%w\n"+
			"hint: `make cluster` has to run in this directory, with its Node Ready", err)
	}
	defer conn.Close()

	s := vm.NewShell(conn)
	open, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()

	if err := s.Open(open); err != nil {
		return errors.Join(err,
			errors.New("hint: one at a time: is the shell open in another terminal?"))
	}

	if len(command) > 0 {
		out, err := s.Run(ctx, strings.Join(command, " "))
		if err == nil {
			fmt.Println(out)
		}
		return err
	}

	return attach(s)
}

// attach makes this terminal the shell's until Ctrl-].
func attach(s *vm.Shell) error {
	fd := int(os.Stdin.Fd())
	if term.IsTerminal(fd) {
		fmt.Println("This is a shell on the node. Ctrl-] leaves it.")
		saved, err := term.MakeRaw(fd)
		if err != nil {
			return err
		}
		defer term.Restore(fd, saved)
	}
	return s.Attach(os.Stdin, os.Stdout, quit)
}
