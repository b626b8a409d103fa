package verity

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
)

const (
	// BlockSize of data and hash blocks, in bytes.
	BlockSize = 4096
	// SaltSize is veritysetup's default, in bytes.
	SaltSize = 32

	signature = "verity\x00\x00"
	algorithm = "sha256"
	// superblockSize in bytes; the rest of its block is zero.
	superblockSize = 512
	// maxDataBlocks bounds what a superblock may claim: 256 TiB of data. Every
	// later size fits an int64.
	maxDataBlocks = 1 << 36
)

// Superblock describes a hash device. What is the same for all of ours
// (version, algorithm, block sizes) is a constant.
type Superblock struct {
	UUID       uuid.UUID
	DataBlocks int64 // of BlockSize bytes
	Salt       [SaltSize]byte
}

// encode makes the superblock's bytes.
func (s Superblock) encode() []byte {
	b := make([]byte, superblockSize)
	le := binary.LittleEndian
	copy(b, signature)
	le.PutUint32(b[8:], 1)  // superblock version
	le.PutUint32(b[12:], 1) // hash type: "normal", salt before data
	copy(b[16:], s.UUID[:])
	copy(b[32:], algorithm)
	le.PutUint32(b[64:], BlockSize)
	le.PutUint32(b[68:], BlockSize)
	le.PutUint64(b[72:], uint64(s.DataBlocks))
	le.PutUint16(b[80:], SaltSize)
	copy(b[88:], s.Salt[:])

	return b
}

// ReadSuperblock reads the superblock at the start of a hash device. Anything
// else than what Build writes is an error: another algorithm or block size, but
// also a padding byte that is not zero.
func ReadSuperblock(r io.ReaderAt) (Superblock, error) {
	b := make([]byte, superblockSize)
	le := binary.LittleEndian
	if n, err := r.ReadAt(b, 0); n < len(b) {
		return Superblock{}, fmt.Errorf("read verity superblock: %w", err)
	}
	if string(b[:8]) != signature {
		return Superblock{}, errors.New("read verity superblock: no verity signature")
	}

	blocks := le.Uint64(b[72:])
	if blocks == 0 || blocks > maxDataBlocks {
		return Superblock{}, fmt.Errorf("read verity superblock: %d data blocks: want 1 to %d",
			blocks, maxDataBlocks)
	}

	s := Superblock{DataBlocks: int64(blocks)}
	copy(s.UUID[:], b[16:])
	copy(s.Salt[:], b[88:])
	if !bytes.Equal(b, s.encode()) {
		return Superblock{}, fmt.Errorf("read verity superblock: version %d, type %d, "+
			"algorithm %q, blocks of %d and %d, salt of %d bytes: "+
			"want 1, 1, %q, %d, %d, %d and zero padding",
			le.Uint32(b[8:]), le.Uint32(b[12:]), bytes.TrimRight(b[32:64], "\x00"),
			le.Uint32(b[64:]), le.Uint32(b[68:]), le.Uint16(b[80:]), algorithm, BlockSize,
			BlockSize, SaltSize)
	}

	return s, nil
}

// Table is the parameter line of the kernel's verity target, without optional
// parameters: the caller appends them. A device is a path or "major:minor". The
// target spans DataBlocks*BlockSize/512 sectors.
func (s Superblock) Table(dataDev, hashDev string, root [32]byte) string {
	return fmt.Sprintf("1 %s %s %d %d %d %d %s %s %s",
		dataDev, hashDev, BlockSize, BlockSize, s.DataBlocks, firstTreeBlock, algorithm,
		hex.EncodeToString(root[:]), hex.EncodeToString(s.Salt[:]))
}
