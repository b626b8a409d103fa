// Package mount reads the mount table of a process, unmounts everything beneath
// a directory, and empties a directory without entering its mounts.
//
// [Parse] is the only parser of /proc/self/mountinfo in the tree. Policy, such
// as which mounts make a disk unusable, stays with the callers.
package mount

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Path is the mount table of the calling process, beneath the root directory.
const Path = "proc/self/mountinfo"

// Mount is one line of the mount table, as proc_pid_mountinfo(5) numbers its
// fields. Names are without the kernel's escapes.
type Mount struct {
	// Device is st_dev of the files, as in sysfs: "8:1" (3).
	Device string
	// Root is the directory of the file system that is mounted (4).
	Root string
	// Point is the mount point, relative to the root directory of the process
	// (5).
	Point string
	// FileSystem is the type, such as "ext4" (9), and Source what the file
	// system names, such as "/dev/sda1", or "none" (10). Both are empty in a
	// line that is cut off.
	FileSystem, Source string
}

// Table is a mount table in the kernel's order, in which a mount comes after
// the mount that it covers.
type Table []Mount

const (
	// fields is the number of fields that a line must have: those up to the
	// mount point. The optional fields begin at index optional.
	fields   = 5
	optional = 6
	// separator ends the optional fields.
	separator = "-"
	// noSource is what the kernel prints for a mount without a source
	// (show_mountinfo in fs/proc_namespace.c).
	noSource = "none"
)

// Parse reads the text of /proc/<pid>/mountinfo. It skips lines without a mount
// point.
func Parse(text string) Table {
	var table Table
	for line := range strings.Lines(text) {
		if m, ok := parseLine(strings.TrimSuffix(line, "\n")); ok {
			table = append(table, m)
		}
	}
	return table
}

func parseLine(line string) (Mount, bool) {
	// A source can be empty, so two spaces are an empty field between them.
	all := strings.Split(line, " ")
	if len(all) < fields {
		return Mount{}, false
	}

	m := Mount{
		Device: all[2],
		Root:   unescape(all[3]),
		Point:  unescape(all[4]),
	}

	rest := all[min(optional, len(all)):]
	at := slices.Index(rest, separator)
	if at < 0 || len(rest) < at+3 {
		return m, true
	}
	m.FileSystem = unescape(rest[at+1])
	m.Source = cmp.Or(unescape(rest[at+2]), noSource)
	return m, true
}

// unescape reverses the octal escapes that the kernel writes for space, tab,
// newline, backslash and '#' (mangle_path in fs/seq_file.c).
func unescape(field string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(field, `\`)
		out.WriteString(before)
		if !found {
			return out.String()
		}

		char, ok := octal(after)
		if !ok {
			out.WriteByte('\\')
			field = after
			continue
		}
		out.WriteByte(char)
		field = after[3:]
	}
}

// octal returns the byte for the three octal digits at the start of text.
func octal(text string) (byte, bool) {
	if len(text) < 3 {
		return 0, false
	}
	char, err := strconv.ParseUint(text[:3], 8, 8)
	return byte(char), err == nil
}

// At returns the mount that is visible at point: of several, the last one
// covers the others. It returns false if nothing is mounted there.
func (t Table) At(point string) (Mount, bool) {
	for _, m := range slices.Backward(t) {
		if m.Point == point {
			return m, true
		}
	}
	return Mount{}, false
}

// Below returns the mount points beneath dir, without dir itself, in the order
// in which to unmount them: the deepest first, and of several on one directory
// the topmost first.
func (t Table) Below(dir string) []string {
	var points []string
	for _, m := range slices.Backward(t) {
		if strings.HasPrefix(m.Point, dir+"/") {
			points = append(points, m.Point)
		}
	}

	depth := func(point string) int { return strings.Count(point, "/") }
	slices.SortStableFunc(points, func(a, b string) int { return cmp.Compare(depth(b), depth(a)) })
	return points
}
