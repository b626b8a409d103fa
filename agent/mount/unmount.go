// Package mount reads the mount table, unmounts what is beneath a directory, and
// empties a directory without what is mounted there.
package mount

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Points are those of the text of /proc/self/mountinfo, in its order, in
// which what is mounted over something comes after it (proc_pid_mountinfo(5)).
func Points(mountinfo string) []string {
	var points []string
	for line := range strings.Lines(mountinfo) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points = append(points, unescape(fields[4]))
		}
	}
	return points
}

// unescape undoes the octal escapes of blanks and backslashes (mangle in
// fs/seq_file.c).
func unescape(field string) string {
	var out strings.Builder
	for i := 0; i < len(field); i++ {
		if field[i] == '\\' && i+4 <= len(field) {
			if c, err := strconv.ParseUint(field[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		out.WriteByte(field[i])
	}
	return out.String()
}

// ToUnmount are the mount points beneath dir, and not dir itself, in the order to
// unmount them: the deepest first, of those on one directory the uppermost.
func ToUnmount(points []string, dir string) []string {
	below := slices.DeleteFunc(slices.Clone(points), func(p string) bool { return !strings.HasPrefix(p, dir+"/") })
	slices.Reverse(below)
	slices.SortStableFunc(below, func(a, b string) int { return cmp.Compare(strings.Count(b, "/"), strings.Count(a, "/")) })
	return below
}

// Mounts are those that the agent sees.
type Mounts struct {
	// Table reads the text of /proc/self/mountinfo, Unmount is umount2(2).
	Table   func() (string, error)
	Unmount func(ctx context.Context, point string) error
}

// Below unmounts what is mounted beneath dir. The error tells what stays. What was
// hidden under another mount goes once that is gone.
func (m Mounts) Below(ctx context.Context, dir string) error {
	var errs []error
	for before := -1; ctx.Err() == nil; {
		text, err := m.Table()
		if err != nil {
			return fmt.Errorf("read the mounts: %w", err)
		}
		points := ToUnmount(Points(text), dir)
		if len(points) == 0 {
			return nil
		}
		if len(points) == before {
			return errors.Join(errs...)
		}
		before, errs = len(points), nil
		for _, p := range points {
			if err := m.Unmount(ctx, p); err != nil {
				errs = append(errs, fmt.Errorf("unmount %s: %w", p, err))
			}
		}
	}
	return ctx.Err()
}

// Has reports whether something is mounted on dir.
func (m Mounts) Has(dir string) bool {
	text, err := m.Table()
	return err == nil && slices.Contains(Points(text), dir)
}

// unmountLimit is how long a mount may take to go: one of a server that does not
// answer may take forever.
const unmountLimit = 30 * time.Second

// Node are the node's.
func Node() Mounts {
	return Mounts{
		Table: func() (string, error) {
			text, err := os.ReadFile("/proc/self/mountinfo")
			return string(text), err
		},
		Unmount: func(ctx context.Context, point string) error {
			ctx, cancel := context.WithTimeout(ctx, unmountLimit)
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- unix.Unmount(point, unix.UMOUNT_NOFOLLOW) }() // Nothing can end the call.
			select {
			case err := <-done:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	}
}
