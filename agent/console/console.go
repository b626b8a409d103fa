// Package console shows the node's status on the kernel's consoles. A screen
// has a page that is drawn again in place whenever the status changes. A serial
// line, which may be a log, gets the page only when something changed that an
// operator cares about.
package console

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/printable"
	"github.com/loam-os/loam/agent/status"
)

// Printer shows the status on all consoles. A console that accepts no text,
// such as a serial port without a UART, costs writeTimeout for each page and
// nothing else.
type Printer struct {
	// Now returns the time of day; [time.Now] if it is nil.
	Now func() time.Time

	consoles []console
	// announced is the generation whose applied line has been printed, said are
	// the causes of problems that have been printed, by what the problem is about.
	announced string
	said      map[string]status.Causes
}

// console is one of the kernel's consoles.
type console struct {
	// file stays open: the last close of a serial port waits for its output to
	// drain, for 30 s on a dead port (tty_port_close_start in
	// drivers/tty/tty_port.c).
	file *os.File
	// terminal is its name, such as ttyS0.
	terminal string
	isScreen bool
}

const (
	// width and lines fit a terminal of 80 columns and 25 lines, together with
	// the applied line.
	width = 79
	lines = 23

	writeTimeout = time.Second
)

// screen is the name of a virtual terminal of the kernel (vt(4)).
var screen = regexp.MustCompile(`^tty[0-9]+$`)

// hypervisor is the console that a hypervisor may give a machine instead of a
// serial port (drivers/tty/hvc in the kernel). The images do not name it on the
// kernel's command line, where it would take the place of the serial port.
const hypervisor = "hvc0"

// Open opens the consoles in the directory dev that the file active names,
// which is /sys/class/tty/console/active on a node, and that of the hypervisor.
// It leaves out a console that cannot be opened. The Printer is usable even with
// an error, and then prints nowhere.
func Open(dev, active string) (*Printer, error) {
	text, err := os.ReadFile(active)
	if err != nil {
		return &Printer{}, fmt.Errorf("find the consoles: %w", err)
	}

	names := strings.Fields(string(text))
	if !slices.Contains(names, hypervisor) {
		names = append(names, hypervisor)
	}

	p := &Printer{}
	for _, name := range names {
		if c, err := open(dev, name); err == nil {
			p.consoles = append(p.consoles, c)
		}
	}
	return p, nil
}

// open opens a console. tty0 stands for the terminal that is in front. The page
// is on the first one, so that it does not disturb a shell on another.
func open(dev, name string) (console, error) {
	const flags = os.O_WRONLY | syscall.O_NOCTTY | syscall.O_NONBLOCK
	if name == "tty0" {
		f, err := os.OpenFile(filepath.Join(dev, "tty1"), flags, 0)
		if !errors.Is(err, os.ErrNotExist) {
			return console{f, "tty1", true}, err
		}
	}
	f, err := os.OpenFile(filepath.Join(dev, name), flags, 0)
	return console{f, name, screen.MatchString(name)}, err
}

// Announced must be called before Show with the generation whose applied line
// an earlier run of the agent has printed in this boot, so that Show does not
// repeat it.
func (p *Printer) Announced(generation string) { p.announced = generation }

// Show draws the status on screens. If it is news, Show also prints it on all
// other consoles, then a line for each cause of a problem, once until the problem is
// over, and once for each generation that is applied the line that says so.
func (p *Printer) Show(s status.Status, news bool) {
	now := time.Now
	if p.Now != nil {
		now = p.Now
	}

	s = printable.Copy(s)
	var printed string
	if news {
		printed = "\n" + s.Table(status.View{Width: width, Lines: lines, Now: now()})
		for _, line := range p.newLines(s) {
			printed += line + "\n"
		}
		if s.IsApplied() && s.Generation != p.announced {
			p.announced = s.Generation
			printed += s.AppliedLine() + "\n"
		}
	}

	for _, c := range p.consoles {
		switch {
		case c.isScreen && !hasShell(s, c.terminal):
			write(c.file, c.page(s, now()))
		case news:
			// A terminal in raw mode does not return the carriage by itself.
			write(c.file, strings.ReplaceAll(printed, "\n", "\r\n"))
		}
	}
}

// newLines returns the lines about problems whose causes have not been printed, and
// forgets the problems that are over.
func (p *Printer) newLines(s status.Status) []string {
	var lines []string
	said := map[string]status.Causes{}
	for _, problem := range s.Problems() {
		causes, news := p.said[problem.Of].With(problem.Cause)
		said[problem.Of] = causes
		if news {
			lines = append(lines, problem.Line)
		}
	}
	p.said = said
	return lines
}

// hasShell reports whether a debug shell is open on a terminal. Its operator
// does not want a page drawn over what he does.
func hasShell(s status.Status, terminal string) bool {
	return slices.Contains(s.DebugShells, terminal)
}

// page returns what draws the status over the whole screen, whatever is on it.
// The last line stays empty, so that nothing scrolls.
func (c console) page(s status.Status, now time.Time) string {
	columns, rows := c.size()
	text := s.Table(status.View{Width: columns - 1, Lines: rows - 1, Now: now})
	return status.InPlace(text)
}

// size returns the size of the screen, 80x25 if it is not known. Of a screen that
// is smaller than the smallest page, it returns the size that the page needs.
func (c console) size() (columns, rows int) {
	columns = 80
	rows = 25
	raw, err := c.file.SyscallConn()
	if err != nil {
		return columns, rows
	}
	_ = raw.Control(func(fd uintptr) {
		size, err := unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ)
		if err == nil && size.Col > 0 && size.Row > 0 {
			columns = max(int(size.Col), status.MinWidth+1)
			rows = max(int(size.Row), status.MinLines+1)
		}
	})
	return columns, rows
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
