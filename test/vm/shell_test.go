package vm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/test/terminal"
)

// bash is a real shell at the other end of a socket, in place of a serial port.
func bash(t *testing.T) net.Conn {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}

	own := os.NewFile(uintptr(ends[0]), "own")
	other := os.NewFile(uintptr(ends[1]), "other")
	defer own.Close()
	defer other.Close()

	conn, err := net.FileConn(own)
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command("bash", "--norc")
	cmd.Stdin = other
	cmd.Stdout = other
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		conn.Close()
		_ = cmd.Wait()
	})

	return conn
}

// visit runs a command as one who is connected to s by Join, and leaves.
func visit(t *testing.T, s *Shell, command string) (string, error) {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Join(far); err != nil {
			t.Error(err)
		}
	}()

	defer func() {
		near.Close()
		<-done
	}()

	visitor := NewShell(near)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	if err := visitor.Open(ctx); err != nil {
		t.Fatal(err)
	}

	return visitor.Run(ctx, command)
}

func TestShell(t *testing.T) {
	s := NewShell(bash(t))
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}

	t.Run("a command's output is returned", func(t *testing.T) {
		if out, err := s.Run(t.Context(), "echo one; echo two"); err != nil || out != "one\ntwo" {
			t.Errorf("%q, %v", out, err)
		}
	})

	t.Run("a command that fails is an error with what it wrote", func(t *testing.T) {
		_, err := s.Run(t.Context(), "echo why; false")
		if err == nil || !strings.Contains(err.Error(), "exit code 1\nwhy") {
			t.Errorf("error %v", err)
		}
	})

	t.Run("a terminal that echoes is no part of the output", func(t *testing.T) {
		echoing := NewShell(terminal.Bash(t).User)
		if err := echoing.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := echoing.Run(t.Context(), "stty echo </dev/tty"); err != nil {
			t.Fatal(err)
		}

		for range 3 {
			out, err := echoing.Run(t.Context(), "echo one\necho two")
			if err != nil || out != "one\ntwo" {
				t.Errorf("%q, %v", out, err)
			}
		}
	})

	t.Run("visitors come one after the other, in the same shell", func(t *testing.T) {
		if out, err := visit(t, s, "word=kept; echo first"); err != nil || out != "first" {
			t.Errorf("%q, %v", out, err)
		}
		if out, err := visit(t, s, "echo $word"); err != nil || out != "kept" {
			t.Errorf("%q, %v", out, err)
		}
	})

	t.Run("a command reads its input, also what is not text", func(t *testing.T) {
		in := []byte("one\x03\x04\x00two\n'" + strings.Repeat("x", 200))
		out, err := s.Run(t.Context(), WithInput("sha256sum; echo end", in))
		if want := fmt.Sprintf("%x  -\nend", sha256.Sum256(in)); err != nil || out != want {
			t.Errorf("%q, %v, want %q", out, err, want)
		}
	})

	t.Run("a command reads what is typed, and its output comes at once", func(t *testing.T) {
		typing := NewShell(terminal.Bash(t).User)
		if err := typing.Open(t.Context()); err != nil {
			t.Fatal(err)
		}

		in, keyboard := io.Pipe()
		screen, out := io.Pipe()
		ended := make(chan error)
		go func() { ended <- typing.Stream(t.Context(), "read a; echo $a; read b; false", in, out) }()

		fmt.Fprintln(keyboard, "one, and more than a mark has")
		text := make([]byte, 3)
		if _, err := io.ReadFull(screen, text); err != nil || string(text) != "one" {
			t.Errorf("read %q, %v", text, err)
		}
		go func() { _, _ = io.Copy(io.Discard, screen) }()
		keyboard.Close()
		var code *ExitError
		if err := <-ended; !errors.As(err, &code) || code.Code != "1" {
			t.Errorf("error %v", err)
		}
		if out, err := typing.Run(t.Context(), "echo free"); err != nil || out != "free" {
			t.Errorf("%q, %v", out, err)
		}
	})

	t.Run("a command that is given up leaves the shell free", func(t *testing.T) {
		shell := NewShell(terminal.Bash(t).User)
		if err := shell.Open(t.Context()); err != nil {
			t.Fatal(err)
		}

		fifo := filepath.Join(t.TempDir(), "fifo")
		if err := unix.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			_, _ = os.ReadFile(fifo) // until the command has begun
		}()
		if _, err := shell.Run(ctx, "echo >"+fifo+"; sleep 3600"); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if out, err := shell.Run(t.Context(), "echo free"); err != nil || out != "free" {
			t.Errorf("%q, %v", out, err)
		}
	})

	t.Run("the end of the machine ends a visit", func(t *testing.T) {
		if out, err := visit(t, s, "exit 3"); err == nil {
			t.Errorf("%q and no error", out)
		}
	})
}
