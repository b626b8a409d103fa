package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listen creates the socket, for root only, with its directory. It replaces the
// socket of a dead agent. A socket that answers, or another file of that name,
// is an error. Closing the listener removes the socket.
func Listen(socket string) (net.Listener, error) {
	listener, err := listen(socket)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", socket, err)
	}
	return listener, nil
}

func listen(socket string) (net.Listener, error) {
	dir := filepath.Dir(socket)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}

	// If two agents start at once, one waits here and then finds the other.
	unlock, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()

	if err := removeStaleSocket(socket); err != nil {
		return nil, err
	}

	private := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		var modeErr error
		// bind(2) gives the file the mode of the socket (unix_bind_bsd in
		// net/unix/af_unix.c), so it is never open to others.
		err := conn.Control(func(fd uintptr) { modeErr = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, modeErr)
	}}

	return private.Listen(context.Background(), "unix", socket)
}

// lock locks the directory name against other callers.
func lock(name string) (unlock func(), err error) {
	dir, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		dir.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { dir.Close() }, nil
}

// removeStaleSocket removes a socket without a listener.
func removeStaleSocket(socket string) error {
	info, err := os.Lstat(socket)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("a file that is not a socket is in the way")
	}

	conn, err := net.Dial("unix", socket)
	if errors.Is(err, unix.ECONNREFUSED) {
		return os.Remove(socket)
	}

	if err != nil {
		return fmt.Errorf("check for another agent: %w", err)
	}

	return errors.Join(errors.New("another agent answers there"), conn.Close())
}
