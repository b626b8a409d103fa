package install

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/loam-os/loam/partitions/sparse"
)

// ErrOther says that the file is not the image that was requested.
var ErrOther = errors.New("not the disk image of this system")

// window is the window size of packed images. A larger one would need memory
// that the node may not have.
const window = 32 << 20

// Unpack unpacks a disk image into a new file, with holes where it is zero, and
// returns its size. It is an error if the SHA-256 of the packed image, in hex,
// is not sum. Then the file must not be used.
func Unpack(file string, packed io.Reader, sum string) (size int64, err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()

	digest := sha256.New()
	packed = io.TeeReader(packed, digest)
	z, err := zstd.NewReader(packed, zstd.WithDecoderMaxWindow(window),
		zstd.WithDecoderConcurrency(1))
	if err != nil {
		return 0, err
	}
	defer z.Close()

	size, unpackErr := sparse.Write(f, z)
	if _, err := io.Copy(io.Discard, packed); err != nil { // The digest covers what follows, too.
		return 0, err
	}
	if have := hex.EncodeToString(digest.Sum(nil)); have != sum {
		return 0, fmt.Errorf("%w: SHA-256 %.12s…, want %.12s…", ErrOther, have, sum)
	}

	return size, unpackErr
}
