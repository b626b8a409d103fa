// Package step shows the progress of long work: a line a step with the time it
// took, the detail in a log file, and the end of that file when a step fails.
package step

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/loam-os/loam/hint"
)

// Log runs steps one after another.
type Log struct {
	out io.Writer
	// columns is the width of the terminal, 0 where no line can be drawn again.
	columns int
	file    *os.File
	// part is how far the running step is, as a text; nil if it does not say.
	part atomic.Pointer[string]
}

// New writes the steps to out and their detail to the file named path, which
// is emptied. On a terminal with room for it, the running step shows its elapsed
// time, and how far it is if it calls Progress.
func New(out *os.File, path string) (*Log, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	return &Log{out: out, columns: columns(out), file: file}, nil
}

// The widths of the line of a running step, and of one that says how far it is.
const (
	runningWidth = 57
	partWidth    = 69
)

// columns returns the width of a terminal, 0 if a line cannot be drawn again and
// again on it. A line that wraps would be drawn below itself.
func columns(terminal *os.File) int {
	columns, _, err := term.GetSize(int(terminal.Fd()))
	if err != nil || columns <= runningWidth || os.Getenv("TERM") == "dumb" {
		return 0
	}
	return columns
}

// Close closes the log file.
func (l *Log) Close() error { return l.file.Close() }

// Note writes a line between steps.
func (l *Log) Note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintln(l.out, text)
	fmt.Fprintln(l.file, text)
}

// Progress shows how far a part of the running step is, such as "verify". It
// follows the rules of a meter.Report. Several goroutines may call it.
func (l *Log) Progress(part string, done, all int64) {
	text := fmt.Sprintf("%s %d %%", part, 100*done/max(all, 1))
	l.part.Store(&text)
}

// Do runs one step. work writes its detail to the log; a failure shows the
// detail's end, and the error has advice as its hint, unless it is empty.
func (l *Log) Do(name, advice string, work func(detail io.Writer) error) error {
	start := time.Now()
	fmt.Fprintf(l.file, "== %s\n", name)
	from, _ := l.file.Seek(0, io.SeekCurrent)
	stop := l.show(name, start)
	err := work(l.file)
	stop()
	took := time.Since(start)

	if err != nil {
		fmt.Fprintf(l.out, "%-44s failed after %.1f s\n", name, took.Seconds())
		detail := l.since(from)
		l.showEnd(detail)
		if errors.Is(err, syscall.ENOSPC) ||
			bytes.Contains(detail, []byte("No space left on device")) {
			advice = full
		}

		err = fmt.Errorf("%s: %w", name, err)
		if advice != "" {
			err = hint.With(err, "%s", advice)
		}

		fmt.Fprintf(l.file, "== %s\n", hint.Text(err))
		return err
	}

	fmt.Fprintf(l.out, "%-44s %6.1f s\n", name, took.Seconds())
	fmt.Fprintf(l.file, "== %s: %.1f s\n", name, took.Seconds())
	return nil
}

// show keeps the elapsed time on a terminal's last line until stop.
func (l *Log) show(name string, start time.Time) (stop func()) {
	l.part.Store(nil)
	if l.columns == 0 {
		return func() {}
	}

	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			fmt.Fprint(l.out, "\r\x1b[K", l.running(name, time.Since(start)))
			select {
			case <-tick.C:
			case <-done:
				fmt.Fprint(l.out, "\r\x1b[K")
				return
			}
		}
	}()

	return func() {
		close(done)
		<-ended
	}
}

// running returns the line of the running step.
func (l *Log) running(name string, took time.Duration) string {
	line := fmt.Sprintf("%-44s %6.0f s", name, took.Seconds())
	if part := l.part.Load(); part != nil && l.columns > partWidth {
		return line + "  " + *part
	}
	return line + " ..."
}

// full is the hint for any step that fills a disk, itself or by a tool.
const full = "a disk is full: see `df -h`; a build takes 1 GB, the cache 2 GB"

// since is what was logged from that offset on.
func (l *Log) since(from int64) []byte {
	text, err := os.ReadFile(l.file.Name())
	if err != nil || int64(len(text)) < from {
		return nil
	}
	return text[from:]
}

// showEnd prints the last lines that the failed step logged.
func (l *Log) showEnd(detail []byte) {
	const most = 25
	var lines []string
	sc := bufio.NewScanner(bytes.NewReader(detail))
	for sc.Scan() {
		lines = append(lines, sc.Text())
	}
	if len(lines) == 0 {
		return
	}

	if len(lines) > most {
		lines = lines[len(lines)-most:]
	}

	fmt.Fprintf(l.out, "  | %s\n  (all of it: %s)\n", strings.Join(lines, "\n  | "), l.file.Name())
}
