// Package terminal makes pseudo-terminals for tests (pts(4)).
package terminal

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudo-terminal until the test ends.
type Terminal struct {
	// Program is the end for a program, as its standard input and output.
	Program *os.File
	// User is the end that types, and reads what is shown.
	User *os.File
}

// Open opens a pseudo-terminal of a size. 0 columns and rows are a terminal that
// does not know its size.
func Open(t *testing.T, columns, rows int) Terminal {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })

	raw, err := user.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	_ = raw.Control(func(fd uintptr) { n, err = prepare(int(fd), columns, rows) })
	if err != nil {
		t.Fatal(err)
	}

	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return Terminal{Program: program, User: user}
}

// prepare unlocks the terminal of the master fd, and returns its number.
func prepare(fd, columns, rows int) (number int, err error) {
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return 0, fmt.Errorf("unlock the terminal: %w", err)
	}
	size := unix.Winsize{Col: uint16(columns), Row: uint16(rows)}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &size); err != nil {
		return 0, fmt.Errorf("set the size of the terminal: %w", err)
	}
	return unix.IoctlGetInt(fd, unix.TIOCGPTN)
}
