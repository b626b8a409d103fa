package vm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Console collects what the machine writes to its first serial port.
type Console struct {
	mu      sync.Mutex
	lines   []Line
	changed chan struct{} // closed and replaced at each new line
	ended   bool
	mirror  io.Writer
}

// Line is a line of the console, without control sequences, and when it ended
// after power-on.
type Line struct {
	Text string
	At   time.Duration
}

func newConsole(r io.Reader, log io.WriteCloser, started time.Time) *Console {
	c := &Console{changed: make(chan struct{})}
	go func() {
		defer log.Close()
		c.read(r, log, started)
	}()
	return c
}

func (c *Console) read(r io.Reader, log io.Writer, started time.Time) {
	var rest []byte
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		_, _ = log.Write(buf[:n])
		rest = c.take(append(rest, buf[:n]...), buf[:n], time.Since(started))
		if err != nil {
			c.end()
			return
		}
	}
}

// take stores the complete lines of text and returns the rest.
func (c *Console) take(text, fresh []byte, at time.Duration) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.mirror != nil {
		_, _ = c.mirror.Write(fresh)
	}

	for {
		line, rest, ok := bytes.Cut(text, []byte("\n"))
		if !ok {
			return text
		}

		c.lines = append(c.lines, Line{plain(string(line)), at})
		text = rest
		close(c.changed)
		c.changed = make(chan struct{})
	}
}

func (c *Console) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	close(c.changed)
	c.changed = make(chan struct{})
}

// anything is a line with a word in it.
var anything = regexp.MustCompile(`\w`)

var control = regexp.MustCompile(
	`\x1b\[[0-9;?=]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1bc|[\x00-\x08\x0b-\x1f]`,
)

func plain(line string) string { return strings.TrimRight(control.ReplaceAllString(line, ""), " ") }

// Mirror copies what comes from now on to w; nil ends it.
func (c *Console) Mirror(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mirror = w
}

// Expect waits for a line that pattern matches, from line number from on, and
// returns it, the groups of the match and the number of the line after it.
func (c *Console) Expect(
	ctx context.Context, from int, pattern *regexp.Regexp,
) (line Line, groups []string, next int, err error) {
	for i := from; ; {
		c.mu.Lock()
		changed := c.changed
		ended := c.ended

		for ; i < len(c.lines); i++ {
			if m := pattern.FindStringSubmatch(c.lines[i].Text); m != nil {
				defer c.mu.Unlock()
				return c.lines[i], m, i + 1, nil
			}
		}

		c.mu.Unlock()
		if ended {
			return Line{}, nil, i, fmt.Errorf(
				"machine is off and never wrote %q; its last lines:\n%s", pattern, c.Tail(15),
			)
		}

		select {
		case <-changed:
		case <-ctx.Done():
			return Line{}, nil, i, fmt.Errorf(
				"waiting for %q on the console: %w; its last lines:\n%s",
				pattern, ctx.Err(), c.Tail(15),
			)
		}
	}
}

// Lines is all that was written so far.
func (c *Console) Lines() []Line {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Line(nil), c.lines...)
}

// Tail is the last n lines as text.
func (c *Console) Tail(n int) string {
	lines := c.Lines()
	var b strings.Builder
	for _, l := range lines[max(0, len(lines)-n):] {
		fmt.Fprintf(&b, "  %6.1fs %s\n", l.At.Seconds(), l.Text)
	}
	return b.String()
}
