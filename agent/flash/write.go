package flash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions/device"
)

// blockSize is how many bytes are written at once.
const blockSize = 4 << 20

// Progress is called with the number of bytes done and their total. doing is
// "write", then "verify".
type Progress func(doing string, done, all int64)

// Open opens a disk exclusively. It is an error if the kernel uses the disk or
// a partition of it (open(2), O_EXCL).
func Open(device string) (*os.File, error) {
	return openExclusively(device, os.O_RDWR)
}

// Probe returns the error of Open for a disk that cannot be written now. It does
// not open the disk for writing, so that nothing takes it for changed.
func Probe(device string) error {
	f, err := openExclusively(device, os.O_RDONLY)
	if err != nil {
		return err
	}
	return f.Close()
}

func openExclusively(device string, mode int) (*os.File, error) {
	f, err := os.OpenFile(device, mode|unix.O_EXCL|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil, hint.With(err,
			"it, or a partition of it, is mounted or part of something: lsblk %s", device)
	}
	return f, err
}

// Mark is at the start of a disk from before the first byte of an image is
// written to it until after the last one. It says that the disk was empty, or
// that the operator allowed its content to be overwritten.
const Mark = "LOAM SYSTEM, BEING WRITTEN\n"

// Write writes an image to a disk of size bytes, reads it back, and makes it
// durable. Offsets, lengths and memory are multiples of align, as direct I/O
// needs them. The Mark comes first, and the backup table that an older image
// left at the end of a larger disk is cleared with it. The start of the disk,
// with the table, comes after all else. Its first sector, which replaces the
// Mark, is written last and alone, when the rest has been read back. So a power
// cut leaves the old content, a disk with the Mark, or all of the image, and a
// disk that fails keeps the Mark.
func Write(
	ctx context.Context,
	to device.Device,
	size int64,
	from io.ReaderAt,
	im Image,
	progress Progress,
) error {
	if err := clearEnds(to, size, im.Table.DiskSize); err != nil {
		return err
	}

	start, others := split(im.Extents, blockSize)
	_, start = split(start, align)
	c := copier{
		disk:     to,
		from:     from,
		progress: progress,
		all:      im.Bytes(),
		done:     align,
	}

	for _, extents := range [][]Extent{others, start} {
		if err := c.each(ctx, extents, "write", c.write); err != nil {
			return err
		}
		if err := to.Sync(); err != nil {
			return fmt.Errorf("make it durable: %w", err)
		}
	}

	c.done = 0
	first, rest := split(im.Extents, align)
	if err := c.each(ctx, rest, "verify", c.verify); err != nil {
		return err
	}

	if err := c.finish(); err != nil {
		return fmt.Errorf("write at 0: %w", err)
	}

	return c.each(ctx, first, "verify", c.verify)
}

// clearEnds writes the Mark and then zeros at the start of a disk, and zeros
// wherever a backup table could be after the image.
func clearEnds(to device.Device, size, image int64) error {
	clear := make([]byte, blockSize)
	copy(clear, Mark)

	tail := max(image, size-1<<20)
	for _, e := range []Extent{{0, blockSize}, {tail, size - tail}} {
		if _, err := to.WriteAt(clear[:e.Len], e.Off); err != nil && e.Len > 0 {
			return fmt.Errorf("clear the disk at %d: %w", e.Off, err)
		}
		if err := to.Sync(); err != nil {
			return fmt.Errorf("clear the disk at %d: %w", e.Off, err)
		}
		copy(clear, make([]byte, len(Mark)))
	}

	return nil
}

// finish writes the first block of the image: all but the first sector, then
// the first sector.
func (c *copier) finish() error {
	last := make([]byte, align)
	if _, err := c.from.ReadAt(last, 0); err != nil {
		return err
	}

	block := bytes.Clone(last)
	copy(block, Mark)
	for _, b := range [][]byte{block, last} {
		if _, err := c.disk.WriteAt(b, 0); err != nil {
			return err
		}
		if err := c.disk.Sync(); err != nil {
			return err
		}
	}

	return nil
}

// split returns the parts of extents before and after an offset.
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

// copier copies and compares extents.
type copier struct {
	disk      device.Device
	from      io.ReaderAt
	progress  Progress
	done, all int64
	back      []byte
}

// each calls do for the blocks of extents, while the next block is read.
func (c *copier) each(
	ctx context.Context, extents []Extent, doing string, do func(b block) error,
) error {
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
		c.back = make([]byte, blockSize)
	}

	have := c.back[:len(b.data)]
	if _, err := c.disk.ReadAt(have, b.off); err != nil {
		return err
	}

	if !bytes.Equal(have, b.data) {
		return hint.With(errors.New("the disk returns other bytes than were written"),
			"the disk is failing, or is not as large as it says")
	}

	return nil
}

// block is a piece of an image that was read.
type block struct {
	off  int64
	data []byte
	err  error
}

// blocks reads extents in order, one block ahead, until ctx ends. The data of a
// block is valid until the next but one is received.
func blocks(ctx context.Context, from io.ReaderAt, extents []Extent) <-chan block {
	out := make(chan block)
	buffers := [2][]byte{make([]byte, blockSize), make([]byte, blockSize)}
	go func() {
		defer close(out)
		for _, e := range extents {
			for at := e.Off; at < e.Off+e.Len; at += blockSize {
				b := block{off: at, data: buffers[0][:min(blockSize, e.Off+e.Len-at)]}
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
