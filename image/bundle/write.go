package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/loam-os/loam/partitions/verity"
)

// Sources is what Write makes a bundle of: the head of the index, and its
// parts.
type Sources struct {
	ImageID, Version, Arch, Profile string
	Epoch                           int
	RootHash                        string
	// Signature of RootHash, nil if none.
	Signature         *verity.Signature
	Root, Verity, UKI Source
}

// Source is the file of a part.
type Source struct {
	io.ReaderAt
	Size int64
}

// Write writes the pack: each distinct chunk once, as they come in root, verity
// and UKI, compressed where that saves 5 % or more. Equal sources give equal
// bytes.
func Write(pack io.Writer, in Sources) (Index, error) {
	ix := Index{
		Format:    Format,
		ImageID:   in.ImageID,
		Version:   in.Version,
		Arch:      in.Arch,
		Profile:   in.Profile,
		Epoch:     in.Epoch,
		RootHash:  in.RootHash,
		Signature: in.Signature,
	}
	if err := ix.checkHead(); err != nil {
		return Index{}, fmt.Errorf("bundle: %w", err)
	}

	w, err := newPacker(pack, ChunkSize, zstd.SpeedBetterCompression)
	if err != nil {
		return Index{}, fmt.Errorf("bundle: %w", err)
	}
	defer w.enc.Close()

	for _, p := range []struct {
		name string
		from Source
		to   *Part
	}{{"root", in.Root, &ix.Root}, {"verity", in.Verity, &ix.Verity}, {"uki", in.UKI, &ix.UKI}} {
		*p.to, err = w.part(p.from)
		if err != nil {
			return Index{}, fmt.Errorf("bundle: %s: %w", p.name, err)
		}
	}

	base, err := Base(in.ImageID, in.Version, in.Arch)
	if err != nil {
		return Index{}, fmt.Errorf("bundle: %w", err)
	}

	ix.Pack = w.pack(base)
	return ix, ix.Validate()
}

// packer is a pack under way.
type packer struct {
	out       io.Writer
	chunkSize int64
	size      int64
	sum       hash.Hash
	enc       *zstd.Encoder
	have      map[Digest]Chunk
}

// newPacker begins a pack. Its encoder must be closed.
func newPacker(out io.Writer, chunkSize int, level zstd.EncoderLevel) (*packer, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(level), zstd.WithWindowSize(chunkSize),
		zstd.WithSingleSegment(true), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, err
	}
	return &packer{
		out:       out,
		chunkSize: int64(chunkSize),
		sum:       sha256.New(),
		enc:       enc,
		have:      map[Digest]Chunk{},
	}, nil
}

// pack describes the pack, whose files begin with base.
func (w *packer) pack(base string) Pack {
	return Pack{
		Name:   base + ".pack",
		Size:   w.size,
		SHA256: hex.EncodeToString(w.sum.Sum(nil)),
	}
}

func (w *packer) part(from Source) (Part, error) {
	p := Part{Size: from.Size}
	if w.chunkSize != ChunkSize {
		p.ChunkSize = w.chunkSize
	}

	sum := sha256.New()
	buf := make([]byte, w.chunkSize)
	for i := range int(p.count()) {
		plain := buf[:p.PlainLen(i)]
		at := int64(i) * w.chunkSize
		if n, err := from.ReadAt(plain, at); n < len(plain) {
			return Part{}, fmt.Errorf("read at %d: %w", at+int64(n), err)
		}

		sum.Write(plain)
		c, err := w.chunk(plain)
		if err != nil {
			return Part{}, err
		}

		p.Chunks = append(p.Chunks, c)
	}

	p.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return p, nil
}

// chunk puts plain into the pack, unless it has it.
func (w *packer) chunk(plain []byte) (Chunk, error) {
	sum := Digest(sha256.Sum256(plain))
	if c, ok := w.have[sum]; ok {
		return c, nil
	}

	c := Chunk{SHA256: sum}
	if len(bytes.TrimLeft(plain, "\x00")) > 0 {
		packed := w.enc.EncodeAll(plain, nil)
		if len(packed) > len(plain)*95/100 {
			packed = plain
		}

		c.At = w.size
		c.Len = int64(len(packed))

		if _, err := w.out.Write(packed); err != nil {
			return Chunk{}, fmt.Errorf("write pack: %w", err)
		}

		w.sum.Write(packed)
		w.size += c.Len
	}

	w.have[sum] = c
	return c, nil
}
