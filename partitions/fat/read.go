package fat

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// ReadDir is the entries of a directory, in its order, without . and .. and a
// label. "" is the root directory; a path is like "EFI/Linux".
func (f *directories) ReadDir(dir string) ([]Entry, error) {
	d, err := f.directory(dir)
	if err != nil {
		return nil, fmt.Errorf("read directory: %w", err)
	}
	return d.entries, nil
}

// Open reads the file, along its chain in FAT 1. It is an error, which names
// the cluster, if the chain is broken.
func (f *directories) Open(path string) (*io.SectionReader, error) {
	_, e, err := f.lookup(path)
	if err == nil && e.Dir {
		err = fmt.Errorf("%s: is a directory", path)
	}

	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}

	r, err := f.reader(e)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}

	return r, nil
}

func (f *directories) reader(e Entry) (*io.SectionReader, error) {
	chain, err := f.fileChain(f.fat, e.first, e.Size)
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(&chainReader{&f.fats, chain}, 0, e.Size), nil
}

// chainReader reads the bytes of a chain.
type chainReader struct {
	f     *fats
	chain []uint32
}

func (r *chainReader) ReadAt(p []byte, off int64) (n int, err error) {
	size := r.f.clusterSize
	for n < len(p) && off/size < int64(len(r.chain)) {
		first := int(off / size)
		count := min(r.f.need(off%size+int64(len(p)-n)), len(r.chain)-first)
		row := runs(r.chain[first : first+count])[0].n
		part := p[n:][:min(int64(len(p)-n), int64(row)*size-off%size)]
		if err := r.f.disk.read(part, r.f.offset(r.chain[first])+off%size); err != nil {
			return n, err
		}

		n += len(part)
		off += int64(len(part))
	}

	if n < len(p) {
		return n, io.EOF
	}

	return n, nil
}

// directory reads the one at the path. Errors name the path and wrap
// fs.ErrNotExist.
func (f *directories) directory(path string) (*directory, error) {
	d, err := f.enter("", f.root)
	if err != nil {
		return nil, err
	}

	for i, parts := 0, split(path); i < len(parts); i++ {
		here := strings.Join(parts[:i+1], "/")
		e, ok := d.find(parts[i])
		switch {
		case !ok:
			return nil, notExist(here)
		case !e.Dir:
			return nil, fmt.Errorf("%s: is not a directory", here)
		}

		d, err = f.enter(here, e.first)
		if err != nil {
			return nil, err
		}
	}

	return d, nil
}

func (f *directories) enter(path string, first uint32) (*directory, error) {
	chain, err := f.follow(f.fat, first)
	if err != nil {
		return nil, fmt.Errorf("directory /%s: %w", path, err)
	}

	d, err := f.readDirectory(path, chain)
	if err != nil {
		return nil, fmt.Errorf("directory /%s: %w", path, err)
	}

	return d, nil
}

// lookup finds the entry at the path, and its directory.
func (f *directories) lookup(path string) (*directory, Entry, error) {
	dir, name := parent(path)
	d, err := f.directory(dir)
	if err != nil {
		return nil, Entry{}, err
	}

	e, ok := d.find(name)
	if !ok {
		return nil, Entry{}, notExist(path)
	}

	return d, e, nil
}

func notExist(path string) error { return fmt.Errorf("%s: %w", path, fs.ErrNotExist) }

func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" })
}

// parent takes the last name off the path.
func parent(path string) (dir, name string) {
	parts := split(path)
	if len(parts) == 0 {
		return "", ""
	}
	return strings.Join(parts[:len(parts)-1], "/"), parts[len(parts)-1]
}
