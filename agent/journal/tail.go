package journal

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/printable"
)

// ReadTimeout bounds what is read for evidence. A journal on a disk that fails
// must not stop its reader.
const ReadTimeout = 2 * time.Second

// cutMark follows an entry of which the rest was not kept.
const cutMark = " ..."

// Tail returns the last entries, a line or more each, fit for a terminal. q.Lines must be set. Of each entry it keeps [printable.Most] bytes, as
// one may have hundreds of megabytes. It returns what it has read in
// [ReadTimeout], and none if the journal cannot be read.
func Tail(ctx context.Context, q Query) []string {
	ctx, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()

	var lines []string
	for _, entry := range run(ctx, q.arguments(), q.Lines) {
		for line := range strings.Lines(entry) {
			lines = append(lines, printable.Line(line, printable.Most))
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		lines = append(lines, fmt.Sprintf("... (not read further than in %s)", ReadTimeout))
	}
	return lines
}

// BootID returns journald's ID of a boot, "" if there is no journal of it. root
// and boot are as in [Query].
func BootID(ctx context.Context, root string, boot int) string {
	args := []string{
		"--quiet", "--no-pager", "--output=json", "--output-fields=_BOOT_ID",
		"--boot=" + strconv.Itoa(boot), "--lines=1",
	}
	if root != "" && root != "/" {
		args = append(args, "--root="+root)
	}

	var entry struct {
		Boot string `json:"_BOOT_ID"`
	}
	for _, text := range run(ctx, args, 1) {
		if json.Unmarshal([]byte(text), &entry) != nil {
			return ""
		}
	}
	return entry.Boot
}

// run returns at most n entries that journalctl prints before ctx ends.
//
// A process that waits for a disk cannot be killed, and is not waited for: its
// goroutine ends with it.
func run(ctx context.Context, args []string, n int) []string {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	cmd := exec.CommandContext(ctx, "journalctl", args...)
	found := make(chan string)
	go func() {
		defer close(found)
		out, err := cmd.StdoutPipe()
		if err != nil || cmd.Start() != nil {
			return
		}
		send(ctx, found, out)
		_ = cmd.Wait() // What was printed counts, also before an error.
	}()
	return collect(ctx, found, n)
}

// collect returns at most n entries that are found before ctx ends.
func collect(ctx context.Context, found <-chan string, n int) []string {
	var entries []string
	for len(entries) < n {
		select {
		case entry, more := <-found:
			if !more {
				return entries
			}
			entries = append(entries, entry)
		case <-ctx.Done():
			return entries
		}
	}
	return entries
}

// send sends the begin of each entry in a text of journalctl until ctx ends.
// Lines of an entry after its first one begin with spaces. What is sent ends as
// the entry does, or with the mark of a cut.
func send(ctx context.Context, found chan<- string, text io.Reader) {
	in := bufio.NewReader(text)
	var entry strings.Builder
	cut := false
	flush := func() {
		if entry.Len() == 0 {
			return
		}
		if cut {
			entry.WriteString(cutMark)
		}
		select {
		case found <- entry.String():
		case <-ctx.Done():
		}
		entry.Reset()
		cut = false
	}
	defer flush()

	begins := true // Of a line.
	for ctx.Err() == nil {
		part, err := in.ReadSlice('\n')
		if begins && len(part) > 0 && part[0] != ' ' {
			flush()
		}

		room := printable.Most - entry.Len()
		cut = cut || len(part) > room
		entry.Write(part[:min(len(part), room)])

		begins = err == nil
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}
