// Package journal reads the log of units with journalctl(1): libsystemd, which
// can read journal files, needs cgo.
package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Query says which entries to read.
type Query struct {
	// Root is the root directory of the node, "" or "/" for the running one.
	Root string
	// Unit is the unit that the entries are of or about, "" for all.
	Unit string
	// Priority is the least important level that counts, such as "warning"; "" for
	// all.
	Priority string
	// Boot is 0 for this boot, -1 for the one before. It does not count if Since
	// is set.
	Boot int
	// Since and Until bound the time of the entries; zero for no bound.
	Since, Until time.Time
	// Lines is how many entries to read at most, the newest ones; 0 for all.
	Lines int
	// JSON has an entry be one object with all of its fields (journalctl(1)), on a
	// line of its own.
	JSON bool
	// Follow also reads entries that are yet to come, until the context ends.
	Follow bool
}

// arguments returns the arguments of journalctl.
func (q Query) arguments() []string {
	format := "--output=short-iso"
	if q.JSON {
		format = "--output=json"
	}
	args := []string{"--quiet", "--no-pager", "--no-hostname", format}
	if q.Unit != "" {
		args = append(args, "--unit="+q.Unit)
	}
	if q.Priority != "" {
		args = append(args, "--priority="+q.Priority)
	}
	if q.JSON {
		args = append(args, "--all") // A long field would be null.
	}
	if q.Root != "" && q.Root != "/" {
		args = append(args, "--root="+q.Root)
	}
	if q.Since.IsZero() {
		args = append(args, "--boot="+strconv.Itoa(q.Boot))
	} else {
		args = append(args, "--since=@"+strconv.FormatInt(q.Since.Unix(), 10))
	}

	if !q.Until.IsZero() {
		// The second that has begun belongs to it.
		args = append(args, "--until=@"+strconv.FormatInt(q.Until.Unix()+1, 10))
	}

	if q.Lines > 0 {
		args = append(args, "--lines="+strconv.Itoa(q.Lines))
	}
	if q.Follow {
		args = append(args, "--follow")
	}

	return args
}

// Copy copies entries to out, a line or more each. It returns how many bytes
// that were: 0 if there are no such entries. The end of ctx is no error if q
// follows.
func Copy(ctx context.Context, out io.Writer, q Query) (int64, error) {
	var problem bytes.Buffer
	count := counter{out: out}
	cmd := exec.CommandContext(ctx, "journalctl", q.arguments()...)
	cmd.Stdout = &count
	cmd.Stderr = &problem

	err := cmd.Run()
	switch {
	case err == nil, q.Follow && ctx.Err() != nil:
		return count.n, nil
	case ctx.Err() != nil: // It was killed, which is all that err says.
		err = ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		err = hint.With(err, "the journal is read with systemd's journalctl")
	case problem.Len() > 0:
		err = fault.With(errors.New(strings.TrimSpace(problem.String())), fault.NoJournal)
	}
	return count.n, fmt.Errorf("read the journal of %s: %w", q.Unit, err)
}

// counter counts what is written to out.
type counter struct {
	out io.Writer
	n   int64
}

func (c *counter) Write(text []byte) (int, error) {
	n, err := c.out.Write(text)
	c.n += int64(n)
	return n, err
}

// Boots returns the boots of which there is a journal, as offsets from the last
// one, which is 0; the oldest first. root is as in [Query].
func Boots(ctx context.Context, root string) ([]int, error) {
	args := []string{"--quiet", "--no-pager", "--list-boots", "--output=json"}
	if root != "" && root != "/" {
		args = append(args, "--root="+root)
	}
	text, err := exec.CommandContext(ctx, "journalctl", args...).Output()
	if err != nil {
		if _, exited := errors.AsType[*exec.ExitError](err); exited && ctx.Err() == nil {
			err = fault.With(err, fault.NoJournal)
		}
		return nil, fmt.Errorf("list the boots of the journal: %w", err)
	}

	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil // There is no journal at all.
	}

	var boots []struct {
		Index int `json:"index"`
	}
	if err := json.Unmarshal(text, &boots); err != nil {
		return nil, fmt.Errorf("list the boots of the journal: %w", err)
	}
	var offsets []int
	for _, b := range boots {
		offsets = append(offsets, b.Index)
	}
	return offsets, nil
}
