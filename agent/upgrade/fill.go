package upgrade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/loam-os/loam/image/bundle"
)

// stride is how much is looked at, fetched, written and made durable at once: so
// much is fetched twice at most when the machine goes down.
const stride = 4 << 20

// gap is how many bytes of the pack are fetched for nothing rather than asking
// twice.
const gap = bundle.ChunkSize

// Packed reads the pack of a bundle.
type Packed interface {
	// Range reads n bytes from off on.
	Range(ctx context.Context, off, n int64) (io.ReadCloser, error)
}

// Local is content of this machine that a system may have in common with another.
type Local struct {
	r    io.ReaderAt
	size int64
	at   map[bundle.Digest]int64
}

// Locate reads size bytes and notes where which chunk is.
func Locate(r io.ReaderAt, size int64) (Local, error) {
	l := Local{r: r, size: size, at: map[bundle.Digest]int64{}}
	buf := make([]byte, stride)
	for off := int64(0); off < size; off += stride {
		n := min(stride, size-off)
		if _, err := r.ReadAt(buf[:n], off); err != nil && !errors.Is(err, io.EOF) {
			return l, err
		}
		for i, c := range chunksOf(buf[:n]) {
			l.at[sha256.Sum256(c)] = off + int64(i)*bundle.ChunkSize
		}
	}
	return l, nil
}

func chunksOf(b []byte) [][]byte { return slices.Collect(slices.Chunk(b, bundle.ChunkSize)) }

// read is the chunk of that digest; nil if it is not there, or not any more.
func (l Local) read(want bundle.Digest) []byte {
	off, ok := l.at[want]
	if !ok {
		return nil
	}
	b := make([]byte, min(bundle.ChunkSize, l.size-off))
	if _, err := l.r.ReadAt(b, off); err != nil && !errors.Is(err, io.EOF) || sha256.Sum256(b) != want {
		return nil
	}
	return b
}

// Filled is what filling a part took, in bytes.
type Filled struct {
	// Kept were there, Local elsewhere on this machine, Near at a mirror; Fetched is
	// what came of the pack, Written what was written.
	Kept, Local, Near, Fetched, Written int64
}

// filler makes the content of a device that of a part.
type filler struct {
	dst      Device
	part     bundle.Part
	locals   []Local
	near     func(ctx context.Context, c bundle.Chunk, n int) []byte
	pack     Packed
	progress func(Filled)
	done     Filled
}

// fill goes on wherever an earlier one stopped: what is on the device tells. All
// bytes are verified before they are written, and those that are right already
// are not written.
func (f *filler) fill(ctx context.Context) error {
	have, want := make([]byte, stride), make([]byte, stride)
	for off := int64(0); off < f.part.Size; off += stride {
		n := min(stride, f.part.Size-off)
		if err := f.piece(ctx, off, have[:n], want[:n]); err != nil {
			return err
		}
		if f.progress != nil {
			f.progress(f.done)
		}
	}
	return nil
}

// piece fills one piece, of which have and want are room.
func (f *filler) piece(ctx context.Context, off int64, have, want []byte) error {
	if _, err := f.dst.ReadAt(have, off); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read what is there at %d: %w", off, err)
	}
	first := int(off / bundle.ChunkSize)
	var missing []int
	differs := make([]bool, len(chunksOf(have)))
	for i, c := range chunksOf(have) {
		chunk, room := f.part.Chunks[first+i], want[i*bundle.ChunkSize:][:len(c)]
		if sha256.Sum256(c) == chunk.SHA256 {
			copy(room, c)
			f.done.Kept += int64(len(c))
			continue
		}
		differs[i] = true
		if b := f.local(chunk, len(c)); b != nil {
			copy(room, b)
			f.done.Local += int64(len(c))
			continue
		}
		if b := f.nearby(ctx, chunk, len(c)); b != nil {
			copy(room, b)
			f.done.Near += int64(len(c))
			continue
		}
		missing = append(missing, i)
	}
	if err := f.fetch(ctx, first, missing, want); err != nil {
		return err
	}
	return f.write(off, want, differs)
}

func (f *filler) local(c bundle.Chunk, n int) []byte {
	if c.Len == 0 {
		return make([]byte, n)
	}
	for _, l := range f.locals {
		if b := l.read(c.SHA256); len(b) == n {
			return b
		}
	}
	return nil
}

// nearby is a chunk of a mirror; nil if none has it, or what it has is not that.
func (f *filler) nearby(ctx context.Context, c bundle.Chunk, n int) []byte {
	if f.near == nil {
		return nil
	}
	b := f.near(ctx, c, n)
	if len(b) != n || sha256.Sum256(b) != c.SHA256 {
		return nil
	}
	return b
}

// fetch gets chunks out of the pack, those that are next to each other at once.
func (f *filler) fetch(ctx context.Context, first int, missing []int, want []byte) error {
	at := func(i int) bundle.Chunk { return f.part.Chunks[first+i] }
	slices.SortFunc(missing, func(a, b int) int { return int(at(a).At - at(b).At) })
	for len(missing) > 0 {
		run, end := 1, at(missing[0]).At+at(missing[0]).Len
		for run < len(missing) && at(missing[run]).At <= end+gap {
			end = max(end, at(missing[run]).At+at(missing[run]).Len)
			run++
		}
		if err := f.fetchRun(ctx, first, missing[:run], end, want); err != nil {
			return err
		}
		missing = missing[run:]
	}
	return nil
}

func (f *filler) fetchRun(ctx context.Context, first int, run []int, end int64, want []byte) error {
	start := f.part.Chunks[first+run[0]].At
	packed := make([]byte, end-start)
	n, err := readPack(ctx, f.pack, start, packed)
	f.done.Fetched += int64(n)
	if err != nil {
		return fmt.Errorf("%w: bytes %d to %d of the pack: %w", ErrNoPack, start, end, err)
	}
	for _, i := range run {
		c, room := f.part.Chunks[first+i], want[i*bundle.ChunkSize:]
		room = room[:min(bundle.ChunkSize, len(room))]
		plain, err := c.Unpack(packed[c.At-start:][:c.Len], len(room))
		if err != nil {
			return fmt.Errorf("chunk at %d of the pack: %w", c.At, err)
		}
		copy(room, plain)
	}
	return nil
}

func readPack(ctx context.Context, pack Packed, off int64, into []byte) (n int, err error) {
	r, err := pack.Range(ctx, off, int64(len(into)))
	if err != nil {
		return 0, err
	}
	n, err = io.ReadFull(r, into)
	return n, errors.Join(err, r.Close())
}

// write writes what differs, neighbours at once, and makes it durable.
func (f *filler) write(off int64, want []byte, differs []bool) error {
	wrote := false
	for i := 0; i < len(differs); i++ {
		if !differs[i] {
			continue
		}
		start := i
		for i < len(differs) && differs[i] {
			i++
		}
		b := want[start*bundle.ChunkSize : min(i*bundle.ChunkSize, len(want))]
		if _, err := f.dst.WriteAt(b, off+int64(start)*bundle.ChunkSize); err != nil {
			return fmt.Errorf("write at %d: %w", off+int64(start)*bundle.ChunkSize, err)
		}
		wrote, f.done.Written = true, f.done.Written+int64(len(b))
	}
	if !wrote {
		return nil
	}
	return f.dst.Sync()
}

// prove reads all of a part again and compares it with its digest.
func prove(r io.ReaderAt, p bundle.Part) error {
	sum := sha256.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, io.NewSectionReader(r, 0, p.Size), make([]byte, stride)); err != nil {
		return fmt.Errorf("read it again: %w", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != p.SHA256 {
		return fmt.Errorf("what was written reads back as %.12s, not %.12s\nhint: the disk is failing", got, p.SHA256)
	}
	return nil
}
