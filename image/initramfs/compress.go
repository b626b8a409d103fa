package initramfs

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// window in bytes is small enough for the cache of the machine that
// decompresses, and far below the kernel's limit of 128 MiB.
const window = 1 << 20

// Compress compresses an archive with zstd for a kernel with CONFIG_RD_ZSTD:
// equal input gives equal output, whatever the number of CPUs. There is no
// frame checksum, which would cost the kernel a pass over all bytes.
func Compress(cpio []byte) ([]byte, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(window),
		zstd.WithEncoderCRC(false), zstd.WithSingleSegment(false))
	if err != nil {
		return nil, fmt.Errorf("compress initramfs: %w", err)
	}

	out := enc.EncodeAll(cpio, nil)
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("compress initramfs: %w", err)
	}

	return out, nil
}
