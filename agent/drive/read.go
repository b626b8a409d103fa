package drive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Read reads those of the files that are in the root directory of the drive,
// each of at most limit bytes.
//
// The kernel reads FAT and ISO 9660, with the long names of Rock Ridge and
// Joliet, better than we would. The mount is read-only, in no directory, and
// gone before Read returns.
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

// mount returns the root directory of the file system, mounted nowhere: closing
// it unmounts (fsmount(2)).
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
