package fat

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/loam-os/loam/partitions/fat/dirent"
)

// Rename gives an entry another name that takes as many slots, and makes it
// read-only or not: one write of one sector. What is read-only the firmware
// does not rename.
func (f *FS) Rename(dir, from, to string, readOnly bool) error {
	d, e, err := f.lookup(dir + "/" + from)
	if err == nil {
		err = d.rename(e, to, readOnly)
	}
	if err != nil {
		return fmt.Errorf("rename %s to %s in /%s: %w", from, to, dir, err)
	}
	return nil
}

// Remove removes a file: the entry by one write of one sector, then its chain.
// If its slots lie in two sectors, that with the short name goes first. A chain
// that is broken, or of which another entry has a cluster, is not freed:
// Reclaim does it when nothing refers to it.
func (f *FS) Remove(path string) error {
	d, e, err := f.lookup(path)
	if err == nil && e.Dir {
		err = fmt.Errorf("%s: is a directory", path)
	}

	if err == nil {
		err = d.unlink(e)
	}
	if err == nil {
		err = f.release(e.first)
	}

	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}

	return nil
}

// WriteFile is Replace of content in memory.
func (f *FS) WriteFile(path string, data []byte) error {
	return f.Replace(path, bytes.NewReader(data), int64(len(data)))
}

// Replace creates a file with size bytes of r, or gives an existing file this
// content by one write of one sector. It frees the old content afterwards.
func (f *FS) Replace(path string, r io.Reader, size int64) error {
	if err := f.replace(path, r, size, false); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Redact is WriteFile for a file whose old content has a secret: it is
// overwritten with zeros before it is freed. After a power cut in between, it
// is in clusters that Reclaim frees.
func (f *FS) Redact(path string, data []byte) error {
	if err := f.replace(path, bytes.NewReader(data), int64(len(data)), true); err != nil {
		return fmt.Errorf("redact %s: %w", path, err)
	}
	return nil
}

func (f *FS) replace(path string, r io.Reader, size int64, secret bool) error {
	c, err := f.Stage(r, size)
	if err != nil {
		return err
	}

	d, e, err := f.lookup(path)
	if errors.Is(err, fs.ErrNotExist) {
		dir, name := parent(path)
		err = f.Link(dir, name, c, c.size)
		if err == nil {
			return nil
		}
	}

	if err == nil && e.Dir {
		err = fmt.Errorf("is a directory")
	}

	if err != nil {
		return errors.Join(err, f.Discard(c))
	}

	if err := d.point(e, c.first, c.size); err != nil {
		return err
	}

	delete(f.staged, c.first)
	if secret {
		if err := f.erase(e.first); err != nil {
			return err
		}
	}
	return f.release(e.first)
}

// Mkdir makes an empty directory of one cluster. The cluster is on the disk
// before the entry. The parent must exist.
func (f *FS) Mkdir(path string) error {
	if err := f.mkdir(path); err != nil {
		return fmt.Errorf("make directory %s: %w", path, err)
	}
	return nil
}

func (f *FS) mkdir(path string) error {
	dir, name := parent(path)
	d, err := f.directory(dir)
	if err != nil {
		return err
	}
	if _, err := d.admit(name, nil); err != nil {
		return err
	}

	up := d.first
	if up == f.root {
		up = 0 // the root has no number here
	}

	clusters, err := f.allocate(1)
	if err != nil {
		return err
	}

	content := make([]byte, f.clusterSize)
	copy(content, dirent.DotSlots(clusters[0], up))

	c, err := f.Stage(bytes.NewReader(content), f.clusterSize)
	if err != nil {
		return err
	}
	if err := d.link(name, dirent.AttrDirectory, c.first, 0); err != nil {
		return errors.Join(err, f.Discard(c))
	}

	delete(f.staged, c.first)
	return nil
}
