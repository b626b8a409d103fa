// Package journal reads the log of units with journalctl(1): libsystemd, which
// can read journal files, needs cgo.
package journal

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/printable"
)

// readTimeout bounds a read. A journal on a disk that fails must not stop its
// reader.
const readTimeout = 2 * time.Second

// maxLine is the longest line that Last returns, in bytes.
const maxLine = 200

// Last returns the last line that the processes of a unit have logged in this
// boot, and not more than age ago. It returns "" if there is no such line, or if
// the journal cannot be read.
func Last(ctx context.Context, unit string, age time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()

	// The state of the unit already has what systemd itself logs about it.
	cmd := exec.CommandContext(ctx, "journalctl", "--quiet", "--no-pager", "--boot",
		"--output=cat", "--lines=1", since(age), "_SYSTEMD_UNIT="+unit)

	// A process that waits for a disk cannot be killed, and is not waited for.
	read := make(chan string, 1)
	go func() { read <- firstLine(start(cmd)) }()

	select {
	case line := <-read:
		return line
	case <-ctx.Done():
		return ""
	}
}

// since returns the argument for entries that are at most age old, in whole
// seconds.
func since(age time.Duration) string {
	return fmt.Sprintf("--since=-%ds", int64((age+time.Second-1)/time.Second))
}

// firstLine returns the first line of an entry as it is shown.
func firstLine(entry string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(entry), "\n")
	return printable.Line(line, maxLine)
}

// start runs a program and returns the begin of what it prints, "" if it prints
// nothing. It does not wait for the rest: an entry may have hundreds of megabytes.
func start(cmd *exec.Cmd) string {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return ""
	}
	if err := cmd.Start(); err != nil {
		return ""
	}

	text, err := io.ReadAll(io.LimitReader(out, printable.Most))
	if len(text) == printable.Most {
		_ = cmd.Process.Kill() // It prints more, which is not read.
		_ = cmd.Wait()
		return string(text)
	}
	if waitErr := cmd.Wait(); err != nil || waitErr != nil {
		return ""
	}
	return string(text)
}
