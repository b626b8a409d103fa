// Package journal reads the log of units with journalctl(1): libsystemd, which
// can read journal files, needs cgo.
package journal

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
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
	go func() {
		out, err := cmd.Output()
		if err != nil {
			out = nil
		}
		read <- firstLine(string(out))
	}()

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

// firstLine returns the first line of an entry without what a terminal may take
// for a command, and cuts it off where it is too long.
func firstLine(entry string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(entry), "\n")
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r == '\x7f' {
			return ' '
		}
		return r
	}, line)
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "") + "..."
	}
	return line
}
