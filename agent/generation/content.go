package generation

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"github.com/loam-os/loam/agent/config"
)

// contentName is the store's name of a file's content. Mode is part of it, as
// hard links share one mode.
func contentName(e Entry) string {
	return contentDir + "/" + e.Digest + "-" + octal(e.Mode)
}

// octal returns mode in at least four octal digits.
func octal(mode fs.FileMode) string {
	digits := strconv.FormatUint(uint64(Octal(mode)), 8)
	return "0000"[min(4, len(digits)):] + digits
}

// Octal returns mode as chmod(1) writes it: permission bits, and setuid, setgid
// and sticky in the digit above them.
func Octal(mode fs.FileMode) uint32 {
	bits := uint32(mode.Perm())
	if mode&fs.ModeSetuid != 0 {
		bits |= 0o4000
	}
	if mode&fs.ModeSetgid != 0 {
		bits |= 0o2000
	}
	if mode&fs.ModeSticky != 0 {
		bits |= 0o1000
	}

	return bits
}

// errContent is returned for content that does not match its digest.
var errContent = errors.New("content does not match its digest")

// checked reads content, but at most a byte too much of it, and compares it with the
// digest at the end.
type checked struct {
	from   io.Reader
	file   io.Closer
	digest string
	sum    hash.Hash
}

func openChecked(c config.Content) (io.ReadCloser, error) {
	from, err := c.Open()
	if err != nil {
		return nil, err
	}
	return &checked{io.LimitReader(from, c.Size+1), from, c.Digest, sha256.New()}, nil
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.sum.Write(p[:n])
	if err == io.EOF && hex.EncodeToString(c.sum.Sum(nil)) != c.digest {
		return n, errContent
	}
	return n, err
}

func (c *checked) Close() error { return c.file.Close() }

// isContent reports whether file name of fsys is a regular file of that mode
// and digest.
func isContent(fsys fs.FS, name string, mode fs.FileMode, digest string, size int64) bool {
	info, err := fs.Lstat(fsys, name)
	if err != nil || info.Mode() != mode || info.Size() != size || !isOurs(info) {
		return false
	}
	have, err := digestOf(fsys, name, size)
	return err == nil && have == digest
}

// isOurs reports whether a file belongs to the user of this process, which is
// root on a node.
func isOurs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || (int(stat.Uid) == os.Geteuid() && int(stat.Gid) == os.Getegid())
}

// digestOf returns the SHA-256 of a file of that size in hex. It reads no more of it: a
// pod can put a larger one in its place.
func digestOf(fsys fs.FS, name string, size int64) (string, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()

	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, size+1)); err != nil {
		return "", err
	}

	return hex.EncodeToString(sum.Sum(nil)), nil
}
