package drive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Read returns the content of the files that exist in the root directory of the
// drive. A file with more than limit bytes is an error.
//
// The kernel knows the long names of FAT, Rock Ridge and Joliet. The mount is
// read-only, in no directory, and gone when Read returns.
func (d Drive) Read(limit int64, names ...string) (map[string][]byte, error) {
	root, err := d.mount()
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", d, err)
	}
	defer unix.Close(root)

	files := map[string][]byte{}
	for _, name := range names {
		text, err := read(root, name, limit)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s of %s: %w", name, d, err)
		}
		files[name] = text
	}

	return files, nil
}

// mount mounts the file system in no directory and returns its root. Closing it
// unmounts the file system (fsmount(2)).
func (d Drive) mount() (root int, err error) {
	context, err := unix.Fsopen(d.Type, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", d.Type, err)
	}
	defer unix.Close(context)

	err = errors.Join(unix.FsconfigSetString(context, "source", d.Device),
		unix.FsconfigSetFlag(context, "ro"), unix.FsconfigCreate(context))
	if err != nil {
		return -1, err
	}

	return unix.Fsmount(context, unix.FSMOUNT_CLOEXEC,
		unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
}

func read(root int, name string, limit int64) ([]byte, error) {
	fd, err := unix.Openat(root, name,
		unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}

	file := os.NewFile(uintptr(fd), name)
	defer file.Close()

	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("more than %d bytes", limit)
	}

	return io.ReadAll(io.LimitReader(file, limit))
}
