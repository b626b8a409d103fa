package verity

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// BlockError is the first block whose hash is not what the level above it says.
type BlockError struct {
	Device string // "data" or "hash"
	Block  int64  // of that device
}

func (e *BlockError) Error() string {
	return fmt.Sprintf("verify: %s block %d does not match its hash", e.Device, e.Block)
}

// Verify checks all of the hash tree and the data against the root hash, from
// the top down, so that it uses nothing before it is verified. A mismatch is a
// *BlockError.
func Verify(data, hash io.ReaderAt, root [32]byte) error {
	s, err := ReadSuperblock(hash)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}

	want := root[:]
	ls := levels(s.DataBlocks)
	for i := len(ls) - 1; i >= 0; i-- {
		start := ls[i].start
		size := ls[i].blocks * BlockSize
		level := io.NewSectionReader(hash, start*BlockSize, size)
		if err := compare(level, ls[i].blocks, s.Salt, want, "hash", start); err != nil {
			return err
		}

		want = make([]byte, size)
		if n, err := hash.ReadAt(want, start*BlockSize); n < len(want) {
			return fmt.Errorf("verify: read hash block %d: %w", start, err)
		}
	}

	return compare(data, s.DataBlocks, s.Salt, want, "data", 0)
}

// compare hashes n blocks of r and compares them with want, one hash after the
// other, and nothing after the last. The first block of r is block start of its
// device.
func compare(
	r io.ReaderAt, n int64, salt [SaltSize]byte, want []byte, device string, start int64,
) error {
	got, err := hashBlocks(r, n, salt)
	if err != nil {
		return fmt.Errorf("verify %s: %w", device, err)
	}

	for i := range n {
		if !bytes.Equal(got[i*sha256.Size:][:sha256.Size], want[i*sha256.Size:][:sha256.Size]) {
			return &BlockError{Device: device, Block: start + i}
		}
	}

	if len(bytes.Trim(want[n*sha256.Size:], "\x00")) > 0 {
		return fmt.Errorf("verify: the superblock leaves %s blocks after %d out", device, start+n-1)
	}

	return nil
}

// ParseRootHash reads 64 hexadecimal digits.
func ParseRootHash(text string) ([32]byte, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != 32 {
		return [32]byte{}, fmt.Errorf("root hash %.80q: not 64 hexadecimal digits", text)
	}
	return [32]byte(raw), nil
}
