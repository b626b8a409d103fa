package verity

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/google/uuid"
)

// Params are what a hash tree depends on besides the data.
type Params struct {
	Salt [SaltSize]byte
	UUID uuid.UUID // of the superblock; informational
}

// Build writes the superblock and the hash tree over the first size bytes of
// data to hash, from its byte 0 on, and returns the root hash and the bytes
// written. The size is a multiple of BlockSize. The tree is held in memory,
// 1/127 of the data; hashing uses all CPUs.
func Build(
	data io.ReaderAt, size int64, hash io.WriterAt, p Params,
) (root [32]byte, hashSize int64, err error) {
	if size <= 0 || size%BlockSize != 0 || size/BlockSize > maxDataBlocks {
		return root, 0, fmt.Errorf("build verity tree: data size %d: want a multiple of %d",
			size, BlockSize)
	}

	s := Superblock{UUID: p.UUID, DataBlocks: size / BlockSize, Salt: p.Salt}
	below := data
	n := s.DataBlocks
	for _, l := range levels(s.DataBlocks) {
		hashes, err := hashBlocks(below, n, s.Salt)
		if err != nil {
			return root, 0, fmt.Errorf("build verity tree: %w", err)
		}

		if _, err := hash.WriteAt(hashes, l.start*BlockSize); err != nil {
			return root, 0, fmt.Errorf("build verity tree: write blocks %d to %d: %w",
				l.start, l.start+l.blocks-1, err)
		}

		below = bytes.NewReader(hashes)
		n = l.blocks
	}

	root, err = hashBlock(below, 0, s.Salt)
	if err != nil {
		return root, 0, fmt.Errorf("build verity tree: %w", err)
	}

	block := make([]byte, BlockSize)
	copy(block, s.encode())
	if _, err := hash.WriteAt(block, 0); err != nil {
		return root, 0, fmt.Errorf("build verity tree: write superblock: %w", err)
	}

	return root, HashSize(s.DataBlocks), nil
}

// hashBlock is the hash of one block: SHA-256 over salt and block.
func hashBlock(r io.ReaderAt, block int64, salt [SaltSize]byte) (sum [32]byte, err error) {
	err = hashBatch(r, block, 1, salt, sum[:])
	return sum, err
}

// hashBatch writes the hashes of count blocks, at most batch, to out.
func hashBatch(r io.ReaderAt, first, count int64, salt [SaltSize]byte, out []byte) error {
	buf := make([]byte, count*BlockSize)
	if n, err := r.ReadAt(buf, first*BlockSize); n < len(buf) {
		return fmt.Errorf("read blocks %d to %d: %w", first, first+count-1, err)
	}

	h := sha256.New()
	for i := range count {
		h.Reset()
		h.Write(salt[:])
		h.Write(buf[i*BlockSize:][:BlockSize])
		h.Sum(out[i*sha256.Size:][:0])
	}

	return nil
}
