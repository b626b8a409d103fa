package boot

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/hint"
)

// Console writes to the kernel log and to every console the kernel uses.
type Console struct{ dev, active string }

// NewConsole uses the device nodes in dev (/dev) and the list of consoles in
// the file active (/sys/class/tty/console/active).
func NewConsole(dev, active string) *Console { return &Console{dev, active} }

// Log writes a message to the kernel log only. The hints of errors follow it.
func (c *Console) Log(format string, args ...any) {
	c.write("kmsg", "<6>loam: "+hint.Sprintf(format, args...)+"\n")
}

// Say writes a message to the kernel log and shows it on every console. The
// hints of errors follow it.
func (c *Console) Say(format string, args ...any) {
	c.Log(format, args...)
	c.Show(hint.Sprintf(format, args...))
}

// Show shows a message on every console, and writes it to no log.
func (c *Console) Show(message string) {
	text := "loam: " + strings.ReplaceAll(message, "\n", "\n      ") + "\n"
	for _, name := range c.names() {
		c.write(name, strings.ReplaceAll(text, "\n", "\r\n"))
	}
}

func (c *Console) names() []string {
	text, err := os.ReadFile(c.active)
	if err != nil {
		return []string{"console"}
	}
	return strings.Fields(string(text))
}

// write does not wait for a terminal that accepts nothing.
func (c *Console) write(name, text string) {
	f, err := os.OpenFile(filepath.Join(c.dev, name), os.O_WRONLY|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return // There is no console on which to report it.
	}
	defer f.Close()
	_, _ = io.WriteString(f, text)
}

// stopwatch times the steps of the boot.
type stopwatch struct {
	last  time.Time
	steps []Step
}

func newStopwatch() *stopwatch { return &stopwatch{last: time.Now()} }

func (s *stopwatch) done(name string) {
	now := time.Now()
	s.steps = append(s.steps, Step{name, now.Sub(s.last)})
	s.last = now
}
