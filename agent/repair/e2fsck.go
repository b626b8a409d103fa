package repair

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/hint"
)

// logFile is the complete log, in memory.
func (r Runner) logFile() string { return filepath.Join(r.Dir, "e2fsck.log") }

// e2fsck runs e2fsck, adds its output to the log, and reports whether it exited
// with 0: there is nothing to repair. It counts what e2fsck changed.
func (r Runner) e2fsck(ctx context.Context, v *View, options ...string) (clean bool) {
	log, err := os.OpenFile(r.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		v.abort(err)
		return false
	}
	defer log.Close()

	command := append([]string{"e2fsck"}, append(options, r.Device)...)
	fmt.Fprintf(log, "# %s\n", strings.Join(command, " "))

	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()

	changes := &changes{}
	out := &bounded{to: log, room: r.room(log), full: cancel}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout = io.MultiWriter(out, changes)
	cmd.Stderr = cmd.Stdout

	err = cmd.Run()
	exited, _ := errors.AsType[*exec.ExitError](err)
	switch {
	case out.room < 0:
		v.abort(fmt.Errorf("e2fsck has more to say than the log has room for, %d MiB", maxLog>>20))
	case err != nil && (exited == nil || !exited.Exited()):
		v.abort(fmt.Errorf("e2fsck: %w", err))
	}
	fmt.Fprintf(log, "# %v\n", cmp.Or(cmd.ProcessState.String(), "not started"))

	if !slices.Contains(options, "-n") {
		v.Record.Changes += changes.count
		v.Record.First = append(v.Record.First, changes.first...)
		v.Record.First = v.Record.First[:min(len(v.Record.First), maxFirst)]
	}
	return err == nil && !changes.fromBackup
}

const (
	// maxLog is how large the log becomes, in bytes. The log is in memory, and
	// e2fsck may go round in circles: what does not fit is not repaired, as
	// nothing would say what was lost.
	maxLog = 64 << 20
	// maxTime is how long e2fsck may take.
	maxTime = 6 * time.Hour
)

// room returns how much the log may still take.
func (Runner) room(log *os.File) int64 {
	info, err := log.Stat()
	if err != nil {
		return 0
	}
	return maxLog - info.Size()
}

// bounded writes to a file until there is no more room, and then calls full.
type bounded struct {
	to   io.Writer
	room int64
	full func()
}

// Write implements [io.Writer].
func (b *bounded) Write(p []byte) (int, error) {
	if b.room < 0 {
		return len(p), nil
	}

	b.room -= int64(len(p))
	if b.room < 0 {
		b.full()
		return len(p), nil
	}
	return b.to.Write(p)
}

// abort records that e2fsck came to no verdict.
func (v *View) abort(err error) {
	v.Aborted = true
	v.Record.Problem = hint.Line(err)
}

// maxFirst is how many changes the record names.
const maxFirst = 20

// changed matches the messages of e2fsck about what it changed: an answer to a
// question, or what it did without asking (e2fsck/problem.c, preen_msg).
var changed = regexp.MustCompile(`\? yes$|\b[A-Z][A-Z ]{4,}\.$`)

// changes counts the messages about changes in what is written to it.
type changes struct {
	rest  []byte // a line that is not complete
	count int
	first []string

	// fromBackup means that e2fsck looked at a copy of superblock and group
	// descriptors. Its verdict is about them, and not about what the kernel mounts.
	fromBackup bool
}

// Write implements [io.Writer].
func (c *changes) Write(p []byte) (int, error) {
	c.rest = append(c.rest, p...)
	for {
		line, rest, ok := bytes.Cut(c.rest, []byte("\n"))
		if !ok {
			break
		}
		c.rest = rest
		c.line(strings.TrimSpace(string(line)))
	}
	return len(p), nil
}

func (c *changes) line(text string) {
	if strings.Contains(text, "trying backup blocks") {
		c.fromBackup = true
	}
	if !changed.MatchString(text) || strings.HasSuffix(text, "IGNORED.") {
		return
	}
	c.count++
	if len(c.first) < maxFirst {
		c.first = append(c.first, text[:min(len(text), 200)])
	}
}
