// Package console prints the node's status on the kernel's consoles.
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

// Printer prints on all consoles. A console that accepts no text, such as a serial
// port without a UART, costs writeTimeout for each print and nothing else.
type Printer struct {
	// files stay open: the last close of a serial port waits for its output to
	// drain, for 30 s on a dead port (tty_port_close_start in
	// drivers/tty/tty_port.c).
	files []*os.File
	// announced is the generation whose applied line has been printed.
	announced string
}

const (
	// width and lines fit a terminal of 80 columns and 25 lines, together with the
	// applied line.
	width = 79
	lines = 23

	writeTimeout = time.Second
)

// Open opens the consoles in the directory dev that the file active names, which is
// /sys/class/tty/console/active on a node. It leaves out a console that cannot be
// opened. The Printer is usable even with an error, and then prints nowhere.
func Open(dev, active string) (*Printer, error) {
	text, err := os.ReadFile(active)
	if err != nil {
		return &Printer{}, fmt.Errorf("find the consoles: %w", err)
	}

	p := &Printer{}
	for name := range strings.FieldsSeq(string(text)) {
		flags := os.O_WRONLY | syscall.O_NOCTTY | syscall.O_NONBLOCK
		if f, err := os.OpenFile(filepath.Join(dev, name), flags, 0); err == nil {
			p.files = append(p.files, f)
		}
	}
	return p, nil
}

// Announced must be called before Show with the generation whose applied line
// an earlier run of the agent has printed in this boot, so that Show does not
// repeat it.
func (p *Printer) Announced(generation string) { p.announced = generation }

// Show prints the status as a table, and once for each generation that is applied
// the line that says so.
func (p *Printer) Show(s status.Status) {
	text := s.Table(width, lines)
	if s.IsApplied() && s.Generation != p.announced {
		p.announced = s.Generation
		text += s.AppliedLine() + "\n"
	}

	// A terminal in raw mode does not return the carriage by itself.
	text = "\r\n" + strings.ReplaceAll(text, "\n", "\r\n")
	for _, f := range p.files {
		write(f, text)
	}
}

func write(f *os.File, text string) {
	_ = f.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := f.WriteString(text); err == nil {
		return
	}

	// The console does not drain: drop what is queued.
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCOFLUSH)
		})
	}
}
