package install

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// ErrOther says that what was sent is not the image that was asked for.
var ErrOther = errors.New("not the disk image of this system")

// window is that of packed images, and no more: what unpacks has little memory.
const window = 32 << 20

// Unpack unpacks a disk image into a new file, with holes where it is zero, and returns its size. It is an error if the SHA-256 of what was packed,
// in hex, is not sum: then the file is not to be used.
func Unpack(file string, packed io.Reader, sum string) (size int64, err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	digest := sha256.New()
	packed = io.TeeReader(packed, digest)
	z, err := zstd.NewReader(packed, zstd.WithDecoderMaxWindow(window), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return 0, err
	}
	defer z.Close()
	size, unpackErr := writeSparse(f, z)
	if _, err := io.Copy(io.Discard, packed); err != nil { // What follows counts, too.
		return 0, err
	}
	if have := hex.EncodeToString(digest.Sum(nil)); have != sum {
		return 0, fmt.Errorf("%w: SHA-256 %.12s…, want %.12s…", ErrOther, have, sum)
	}
	return size, unpackErr
}

// writeSparse writes what is not zero, by blocks.
func writeSparse(to *os.File, from io.Reader) (size int64, err error) {
	buf := make([]byte, 256<<10)
	for {
		n, err := io.ReadFull(from, buf)
		const block = 4096
		for at := 0; at < n; at += block {
			part := buf[at:min(at+block, n)]
			if len(bytes.TrimLeft(part, "\x00")) == 0 {
				continue
			}
			if _, err := to.WriteAt(part, size+int64(at)); err != nil {
				return size, err
			}
		}
		size += int64(n)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return size, to.Truncate(size)
		case err != nil:
			return size, err
		}
	}
}
