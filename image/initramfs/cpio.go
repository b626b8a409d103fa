// Package initramfs writes the archive that the kernel unpacks as its first
// root file system: cpio in the "newc" format of the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst, compressed with
// zstd.
package initramfs

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Entry is one file of the archive.
type Entry struct {
	Path   string      // "usr/bin/loam": relative, clean
	Mode   fs.FileMode // type and permissions: regular file, directory, symlink or device
	Data   []byte      // of a regular file
	Target string      // of a symlink
	Major  uint32      // of a device
	Minor  uint32
}

// Write writes the archive. Entries are sorted by path, parent directories that
// are missing are added with mode 0755, everything belongs to root, times are 0
// and inode numbers count from 1: equal entries give equal bytes.
func Write(w io.Writer, entries []Entry) error {
	sorted, err := complete(entries)
	if err != nil {
		return fmt.Errorf("write initramfs: %w", err)
	}

	a := archive{w: w}
	for _, e := range sorted {
		if err := a.add(e); err != nil {
			return fmt.Errorf("write initramfs: %s: %w", e.Path, err)
		}
	}

	if err := a.trailer(); err != nil {
		return fmt.Errorf("write initramfs: trailer: %w", err)
	}

	return nil
}

// complete checks the entries, adds their parents and sorts them: a directory
// comes before its content.
func complete(entries []Entry) ([]Entry, error) {
	byPath := map[string]Entry{}
	for _, e := range entries {
		if e.Path == "" || e.Path == "." || !fs.ValidPath(e.Path) ||
			strings.ContainsRune(e.Path, 0) || e.Path == trailerName {
			return nil, fmt.Errorf("path %q: want a clean relative path", e.Path)
		}
		if _, twice := byPath[e.Path]; twice {
			return nil, fmt.Errorf("path %q: given twice", e.Path)
		}
		byPath[e.Path] = e
	}

	for _, e := range entries {
		for dir := path.Dir(e.Path); dir != "."; dir = path.Dir(dir) {
			if parent, ok := byPath[dir]; !ok {
				byPath[dir] = Entry{Path: dir, Mode: fs.ModeDir | 0o755}
			} else if !parent.Mode.IsDir() {
				return nil, fmt.Errorf("path %q: %s is no directory", e.Path, dir)
			}
		}
	}

	var sorted []Entry
	for _, e := range byPath {
		sorted = append(sorted, e)
	}

	slices.SortFunc(sorted, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return sorted, nil
}

const trailerName = "TRAILER!!!"

// archive writes records, each padded to four bytes.
type archive struct {
	w   io.Writer
	ino uint32
}

func (a *archive) add(e Entry) error {
	mode, err := unixMode(e.Mode)
	if err != nil {
		return err
	}

	data := e.Data
	switch {
	case e.Mode&fs.ModeSymlink != 0 && e.Target != "" && data == nil:
		data = []byte(e.Target)
	case e.Target != "" || e.Mode&fs.ModeSymlink != 0:
		return fmt.Errorf(
			"mode %s, target %q: a symlink has a target and no data, nothing else has a target",
			e.Mode, e.Target,
		)
	case len(data) > 0 && !e.Mode.IsRegular():
		return fmt.Errorf("mode %s: has data", e.Mode)
	case int64(len(data)) > 1<<32-1:
		return fmt.Errorf("%d bytes: the format holds at most 4 GiB", len(data))
	}

	a.ino++
	links := uint32(1)
	if e.Mode.IsDir() {
		links = 2
	}

	return a.record(e.Path, data, a.ino, mode, links, e.Major, e.Minor)
}

func (a *archive) trailer() error { return a.record(trailerName, nil, 0, 0, 1, 0, 0) }

// record writes header, name and data.
func (a *archive) record(name string, data []byte, ino, mode, links, major, minor uint32) error {
	var b bytes.Buffer
	b.WriteString("070701")

	for _, field := range []uint32{
		ino, mode, 0, 0, links, 0, uint32(len(data)), 0, 0, major, minor, uint32(len(name)) + 1, 0,
	} {
		// …uid, gid … time, size, device of the file, device, name size,
		// checksum
		fmt.Fprintf(&b, "%08x", field)
	}

	b.WriteString(name + "\x00")
	b.Write(make([]byte, -b.Len()&3))

	for _, part := range [][]byte{b.Bytes(), data, make([]byte, -len(data)&3)} {
		if _, err := a.w.Write(part); err != nil {
			return err
		}
	}

	return nil
}

// unixMode is the mode as stat(2) has it.
func unixMode(m fs.FileMode) (uint32, error) {
	mode := uint32(m.Perm())
	for bit, unix := range map[fs.FileMode]uint32{
		fs.ModeSetuid: 0o4000,
		fs.ModeSetgid: 0o2000,
		fs.ModeSticky: 0o1000,
	} {
		if m&bit != 0 {
			mode |= unix
		}
	}

	switch m.Type() {
	case 0:
		return mode | 0o100000, nil
	case fs.ModeDir:
		return mode | 0o040000, nil
	case fs.ModeSymlink:
		return mode | 0o120000, nil
	case fs.ModeDevice:
		return mode | 0o060000, nil
	case fs.ModeDevice | fs.ModeCharDevice:
		return mode | 0o020000, nil
	}

	return 0, fmt.Errorf("mode %s: want a file, directory, symlink or device", m)
}
