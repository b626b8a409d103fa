package flash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// stride is how much is written at once.
const stride = 4 << 20

// Progress is told how many bytes of how many are done; doing is "write", then "verify".
type Progress func(doing string, done, all int64)

// Disk is an open disk, of that size, for direct I/O: offsets, lengths and memory are multiples of align.
type Disk interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
}

// Open opens a disk for nobody else: it is an error if the kernel uses it or a partition of it (open(2), O_EXCL).
func Open(device string) (*os.File, error) {
	f, err := os.OpenFile(device, os.O_RDWR|unix.O_EXCL|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("%w\nhint: it, or a partition of it, is mounted or part of something: lsblk %s", err, device)
	}
	return f, err
}

// Write writes an image to a disk of size bytes, reads it back, and makes it durable. The start of the disk, with the table, goes last: a disk
// of which only a part is written does not boot. What an older backup table has at the end of a larger disk goes first.
func Write(ctx context.Context, to Disk, size int64, from io.ReaderAt, im Image, progress Progress) error {
	if err := clearEnds(to, size, im.Table.DiskSize); err != nil {
		return err
	}
	first, others := split(im.Extents, stride)
	c := copier{disk: to, from: from, progress: progress, all: im.Bytes()}
	for _, extents := range [][]Extent{others, first} {
		if err := c.each(ctx, extents, "write", c.write); err != nil {
			return err
		}
		if err := to.Sync(); err != nil {
			return fmt.Errorf("make it durable: %w", err)
		}
	}
	c.done = 0
	return c.each(ctx, im.Extents, "verify", c.verify)
}

// clearEnds makes the start of a disk, and what could have a backup table after the image, zeros.
func clearEnds(to Disk, size, image int64) error {
	zeros := make([]byte, stride)
	tail := max(image, size-1<<20)
	for _, e := range []Extent{{tail, size - tail}, {0, stride}} {
		if _, err := to.WriteAt(zeros[:e.Len], e.Off); err != nil && e.Len > 0 {
			return fmt.Errorf("clear the disk at %d: %w", e.Off, err)
		}
	}
	return to.Sync()
}

// split takes what is before an offset apart.
func split(all []Extent, at int64) (before, after []Extent) {
	for _, e := range all {
		if n := min(e.Len, at-e.Off); n > 0 {
			before = append(before, Extent{e.Off, n})
			e = Extent{e.Off + n, e.Len - n}
		}
		if e.Len > 0 {
			after = append(after, e)
		}
	}
	return before, after
}

// copier copies extents, and compares them.
type copier struct {
	disk      Disk
	from      io.ReaderAt
	progress  Progress
	done, all int64
	back      []byte
}

// each does something with the blocks of extents, while the next is read.
func (c *copier) each(ctx context.Context, extents []Extent, doing string, do func(b block) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for b := range blocks(ctx, c.from, extents) {
		if b.err != nil {
			return fmt.Errorf("read the image at %d: %w", b.off, b.err)
		}
		if err := do(b); err != nil {
			return fmt.Errorf("%s at %d: %w", doing, b.off, err)
		}
		c.done += int64(len(b.data))
		c.progress(doing, c.done, c.all)
	}
	return ctx.Err()
}

func (c *copier) write(b block) error {
	_, err := c.disk.WriteAt(b.data, b.off)
	return err
}

func (c *copier) verify(b block) error {
	if c.back == nil {
		c.back = make([]byte, stride)
	}
	have := c.back[:len(b.data)]
	if _, err := c.disk.ReadAt(have, b.off); err != nil {
		return err
	}
	if !bytes.Equal(have, b.data) {
		return errors.New("what was written reads back as something else\nhint: the disk is failing, or is not as large as it says")
	}
	return nil
}

// block is what is read of an image.
type block struct {
	off  int64
	data []byte
	err  error
}

// blocks reads extents in order, one block ahead, until ctx ends. A block is good until the next but one is received.
func blocks(ctx context.Context, from io.ReaderAt, extents []Extent) <-chan block {
	out := make(chan block)
	buffers := [2][]byte{make([]byte, stride), make([]byte, stride)}
	go func() {
		defer close(out)
		for _, e := range extents {
			for at := e.Off; at < e.Off+e.Len; at += stride {
				b := block{off: at, data: buffers[0][:min(stride, e.Off+e.Len-at)]}
				buffers[0], buffers[1] = buffers[1], buffers[0]
				if got, err := from.ReadAt(b.data, at); got < len(b.data) {
					b.err = errors.Join(err, io.ErrUnexpectedEOF)
				}
				select {
				case out <- b:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out
}
