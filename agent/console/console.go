// Package console shows the status on the kernel's consoles.
package console

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/status"
)

// Printer shows the status on the kernel's consoles. A console that does not
// take text, such as a serial port without a UART, costs a second each time
// and nothing else.
type Printer struct {
	// files stay open: the last close of a serial port waits for it to drain,
	// for 30 s on a dead one (tty_port_close_start in drivers/tty/tty_port.c).
	files []*os.File
	// announced is the generation whose applied line has been printed.
	announced string
}

// The table fits a terminal of 80 columns and 25 lines, with the applied line.
const (
	consoleWidth = 79
	consoleLines = 23
)

// Open opens the consoles that /sys/class/tty/console/active names.
// One that cannot be opened is left out.
func Open(dev, active string) (*Printer, error) {
	text, err := os.ReadFile(active)
	if err != nil {
		return &Printer{}, fmt.Errorf("find the consoles: %w", err)
	}
	c := &Printer{}
	for _, name := range strings.Fields(string(text)) {
		f, err := os.OpenFile(filepath.Join(dev, name), os.O_WRONLY|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
		if err == nil {
			c.files = append(c.files, f)
		}
	}
	return c, nil
}

// Show prints the table, and once for each generation that is applied the line
// that says so. announced tells of a generation that an earlier run of the
// agent has announced in this boot.
func (c *Printer) Show(s status.Status) {
	text := s.Table(consoleWidth, consoleLines)
	if s.IsApplied() && s.Generation != c.announced {
		c.announced = s.Generation
		text += s.AppliedLine() + "\n"
	}
	// A tty in raw mode does not return the carriage by itself.
	text = "\r\n" + strings.ReplaceAll(text, "\n", "\r\n")
	for _, f := range c.files {
		c.write(f, text)
	}
}

// Announced says that the applied line of a generation has been printed in this boot.
func (c *Printer) Announced(generation string) { c.announced = generation }

func (c *Printer) write(f *os.File, text string) {
	_ = f.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := f.WriteString(text); err == nil {
		return
	}
	// Nobody reads there: forget what is queued.
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCOFLUSH) })
	}
}
