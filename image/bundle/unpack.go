package bundle

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Unpack makes plain bytes of what the pack has for the chunk, and verifies
// them. It takes memory for one chunk, whatever packed says. The result may be
// packed itself.
func (c Chunk) Unpack(packed []byte, plainLen int) ([]byte, error) {
	if plainLen <= 0 || plainLen > MaxChunkSize || int64(len(packed)) != c.Len {
		return nil, fmt.Errorf("chunk %s: %d bytes packed and %d plain, want %d packed",
			c.SHA256, len(packed), plainLen, c.Len)
	}

	plain := packed
	switch c.Len {
	case int64(plainLen):
	case 0:
		plain = make([]byte, plainLen)
	default:
		var err error
		plain, err = decompress(packed, plainLen)
		if err != nil {
			return nil, fmt.Errorf("chunk %s: %w", c.SHA256, err)
		}
	}

	if have := Digest(sha256.Sum256(plain)); have != c.SHA256 {
		return nil, fmt.Errorf("chunk %s: these bytes have digest %s", c.SHA256, have)
	}

	return plain, nil
}

// decompress reads one zstd frame of plainLen bytes. The frame has to say so,
// before memory is taken for it.
func decompress(packed []byte, plainLen int) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(packed); err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}

	if h.Skippable || !h.HasFCS || h.FrameContentSize != uint64(plainLen) || h.DictionaryID != 0 {
		return nil, fmt.Errorf("zstd: a frame of %d bytes (known: %t), want %d",
			h.FrameContentSize, h.HasFCS, plainLen)
	}

	dec, err := zstd.NewReader(bytes.NewReader(nil), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(uint64(max(plainLen, ChunkSize))),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	defer dec.Close()

	plain, err := dec.DecodeAll(packed, make([]byte, 0, plainLen))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	if len(plain) != plainLen {
		return nil, fmt.Errorf("zstd: %d bytes, want %d", len(plain), plainLen)
	}

	return plain, nil
}
