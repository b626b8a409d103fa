package rootfs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Digest is the SHA-256, in hex, of everything in the tree dir that an image
// of it would show: path, type, mode, owner, size and content of each file,
// target of each link, number of each device, extended attribute of file
// capabilities. Times are not in it, as the image has one time for all files.
// The files except, by their paths in dir, are left out.
func Digest(dir string, except ...string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name, err := filepath.Rel(dir, path); err != nil || slices.Contains(except, name) {
			return err
		}
		return digestFile(sum, dir, path)
	})
	if err != nil {
		return "", fmt.Errorf("digest of %s: %w", dir, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// digestFile adds one file to sum. WalkDir comes in lexical order.
func digestFile(sum io.Writer, dir, path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}

	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}

	stat := info.Sys().(*syscall.Stat_t)
	fmt.Fprintf(sum, "%q %o %d %d %d ", name, stat.Mode, stat.Uid, stat.Gid, stat.Rdev)

	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		fmt.Fprintf(sum, "%q\n", target)
		return err
	case info.Mode().IsRegular():
		return digestContent(sum, path, info.Size())
	}

	fmt.Fprintln(sum)
	return nil
}

func digestContent(sum io.Writer, path string, size int64) error {
	capability := make([]byte, 64)
	n, err := unix.Lgetxattr(path, "security.capability", capability)
	if err != nil && err != unix.ENODATA && err != unix.EOPNOTSUPP {
		return &fs.PathError{Op: "getxattr", Path: path, Err: err}
	}

	fmt.Fprintf(sum, "%d %x\n", size, capability[:max(n, 0)])
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()

	_, err = io.Copy(sum, f)

	return err
}
