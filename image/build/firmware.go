package build

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/firmware/device"
	"github.com/loam-os/loam/image/initramfs"
)

// firmwareFiles are the firmware files of a root tree as an initramfs has them,
// except processors' microcode: drivers of network interfaces request them when
// they are loaded. A tree for virtual machines has none.
func firmwareFiles(tree string) (entries []initramfs.Entry, err error) {
	dir := filepath.Join(tree, device.Dir)
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path == dir:
			return nil
		case err != nil:
			return err
		case e.IsDir() && strings.HasSuffix(e.Name(), "-ucode"):
			return fs.SkipDir
		case e.IsDir():
			return nil
		}

		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}

		file := initramfs.Entry{Path: "lib/firmware/" + name, Mode: 0o444}
		if e.Type() == fs.ModeSymlink {
			file.Mode |= fs.ModeSymlink
			file.Target, err = os.Readlink(path)
		} else {
			file.Data, err = os.ReadFile(path)
		}

		entries = append(entries, file)
		return err
	})

	return entries, err
}
