package fat

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
)

// maxFile is FAT's largest file.
const maxFile = 1<<32 - 1

// chunk is the size of one read or write, where the chain allows.
const chunk = 1 << 20

// Chain is content on the disk that no entry refers to. Link gives it a name,
// once; Discard and Reclaim free it.
type Chain struct {
	SHA256 [sha256.Size]byte // of the content
	first  uint32            // 0: no content
	size   int64
}

// Stage writes size bytes of r to free clusters, flushes, allocates them in
// both FATs, flushes, and reads all of it back to compare. After an error
// clusters may be allocated for nothing, until Reclaim.
func (f *FS) Stage(r io.Reader, size int64) (Chain, error) {
	c, err := f.store(r, size)
	if err != nil {
		return Chain{}, fmt.Errorf("stage %d bytes: %w", size, err)
	}
	if c.first != 0 {
		f.staged[c.first] = f.need(size)
	}
	return c, nil
}

// store writes size bytes of r to a chain, flushes, allocates it in both FATs,
// flushes, and reads all of it back to compare.
func (f *fats) store(r io.Reader, size int64) (Chain, error) {
	if size < 0 || size > maxFile {
		return Chain{}, fmt.Errorf("a file has 0 to %d bytes", int64(maxFile))
	}

	clusters, err := f.allocate(f.need(size))
	if err != nil {
		return Chain{}, err
	}

	c := Chain{size: size}
	c.SHA256, err = f.writeContent(r, size, clusters)
	if err != nil || size == 0 {
		return c, err
	}

	c.first = clusters[0]
	if err := f.disk.sync(); err != nil {
		return Chain{}, err
	}

	err = f.change(clusters, func(i int) uint32 {
		if i+1 < len(clusters) {
			return clusters[i+1]
		}
		return endOfChain
	})
	if err != nil {
		return Chain{}, err
	}

	if err := f.readBack(c, clusters); err != nil {
		return Chain{}, fmt.Errorf("read back: %w", err)
	}

	return c, nil
}

// writeContent writes the content to the clusters, the last one filled with
// zeros, and returns its digest.
func (f *fats) writeContent(
	r io.Reader, size int64, clusters []uint32,
) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	buf := make([]byte, max(chunk, f.clusterSize))
	per := len(buf) / int(f.clusterSize)
	for left := size; left > 0; {
		part := buf[:min(left, int64(len(buf)))]
		if _, err := io.ReadFull(r, part); err != nil {
			return sum, fmt.Errorf("content at byte %d: %w", size-left, err)
		}

		h.Write(part)
		clear(buf[len(part):])

		n := min(per, len(clusters))
		for _, r := range runs(clusters[:n]) {
			at := r.at * int(f.clusterSize)
			err := f.disk.write(buf[at:at+r.n*int(f.clusterSize)], f.offset(clusters[r.at]))
			if err != nil {
				return sum, err
			}
		}

		clusters = clusters[n:]
		left = left - int64(len(part))
	}

	return digest(h), nil
}

// readBack compares content and FATs with what was written.
func (f *fats) readBack(c Chain, clusters []uint32) error {
	h := sha256.New()
	content := io.NewSectionReader(&chainReader{f, clusters}, 0, c.size)
	if _, err := io.CopyBuffer(h, content, make([]byte, chunk)); err != nil {
		return err
	}

	if got := digest(h); !bytes.Equal(got[:], c.SHA256[:]) {
		return fmt.Errorf("SHA-256 is %x, of what was written %x", got, c.SHA256)
	}

	return f.verifyFAT(clusters)
}

// Discard frees what was staged and is not linked.
func (f *FS) Discard(c Chain) error {
	if _, ok := f.staged[c.first]; !ok {
		return nil
	}
	delete(f.staged, c.first)
	if err := f.release(c.first); err != nil {
		return fmt.Errorf("discard %d staged bytes: %w", c.size, err)
	}
	return nil
}

func digest(h hash.Hash) [sha256.Size]byte { return [sha256.Size]byte(h.Sum(nil)) }
