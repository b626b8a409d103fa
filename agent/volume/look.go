package volume

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"strings"
	"sync"
)

// edge is how much at each end of a device must be zero.
const edge = mib

// chunk is how much of a device is read at once.
const chunk = 16 * kib

// maxFailed is how many reads of a device may fail before no more are tried: each can
// take the kernel half a minute, and one is enough not to call it empty.
const maxFailed = 3

// reader reads a device of size bytes by chunks, each of them once.
type reader struct {
	device io.ReaderAt
	size   int64
	chunks map[int64][]byte // by their start; nil for one that cannot be read
	failed []int64
	// zeros is what all chunks of zeros share.
	zeros, scratch []byte
}

func newReader(device io.ReaderAt, size int64) *reader {
	return &reader{device: device, size: size, chunks: map[int64][]byte{}, zeros: make([]byte, chunk), scratch: make([]byte, chunk)}
}

// read returns n bytes at offset, at most a chunk; ok is false if the device has no such bytes, or
// cannot read them. The result is not to be changed.
func (r *reader) read(offset int64, n int) (b []byte, ok bool) {
	if offset < 0 || offset > r.size-int64(n) {
		return nil, false
	}
	start := offset - offset%chunk
	first := r.chunk(start)
	if first == nil {
		return nil, false
	}
	if first = first[offset-start:]; n <= len(first) {
		return first[:n], true
	}
	rest := r.chunk(start + chunk)
	if rest == nil {
		return nil, false
	}
	return slices.Concat(first, rest[:n-len(first)]), true
}

// chunk is the one that begins there, which is within the device; nil if it cannot be read.
func (r *reader) chunk(start int64) []byte {
	if b, known := r.chunks[start]; known || len(r.failed) == maxFailed {
		return b
	}
	b := r.scratch[:min(chunk, r.size-start)]
	if n, _ := r.device.ReadAt(b, start); n < len(b) {
		r.failed = append(r.failed, start)
		r.chunks[start] = nil
		return nil
	}
	if zeros := r.zeros[:len(b)]; bytes.Equal(b, zeros) {
		r.chunks[start] = zeros
	} else {
		r.chunks[start] = slices.Clone(b)
	}
	return r.chunks[start]
}

// Look reads what a device of size bytes holds, and nothing outside of it. What cannot be
// read is evidence, as is a device without any bytes.
func Look(device io.ReaderAt, size int64) Content {
	if size <= 0 {
		return Content{Evidence: []Evidence{{Name: Unreadable}}}
	}
	r := newReader(device, size)
	var c Content
	if start, ok := r.read(0, len(FormatMark)); ok && string(start) == FormatMark {
		c.Evidence = append(c.Evidence, Evidence{Name: marked})
	}
	c.Evidence = append(c.Evidence, r.signatures()...)
	c.Evidence = append(c.Evidence, r.unnamed(c.Evidence)...)
	for i, offset := range r.failed {
		near := func(other int64) bool { return offset >= other && offset < other+edge }
		if !slices.ContainsFunc(r.failed[:i], near) {
			c.Evidence = append(c.Evidence, Evidence{Name: Unreadable, Offset: offset})
		}
	}
	slices.SortStableFunc(c.Evidence, func(a, b Evidence) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), strings.Compare(a.Name, b.Name))
	})
	c.Evidence = slices.Compact(c.Evidence)
	c.recognise(r)
	return c
}

// signatures finds all there are.
func (r *reader) signatures() []Evidence {
	var found []Evidence
	for _, s := range append(slices.Clip(known()), signature{name: "xfs", magic: "XFSB", at: xfsCopies(r.size)}) {
		for _, p := range s.at {
			offsets := []int64{p.in(r.size), -1}
			if p.align == 0 && len(s.magic) >= 4 { // A weaker one would see one in what is left of old data.
				offsets[1] = p.offset + lostStart
			}
			for _, offset := range offsets {
				if ev, ok := r.match(s, offset); ok {
					found = append(found, ev)
				}
			}
		}
	}
	return found
}

// known are all signatures but for those whose places depend on more than the end of the device.
var known = sync.OnceValue(func() []signature {
	return slices.Concat(partitionTables(), raids(), volumeManagers(), swaps(), fileSystems(), extCopies())
})

func (r *reader) match(s signature, offset int64) (Evidence, bool) {
	if offset < 0 || offset > r.size-max(1, int64(len(s.magic))) {
		return Evidence{}, false
	}
	if got, ok := r.read(offset, len(s.magic)); !ok || string(got) != s.magic {
		return Evidence{}, false
	}
	p := probe{r, offset}
	if s.check != nil && !s.check(p) {
		return Evidence{}, false
	}
	ev := Evidence{Name: s.name, Version: s.version, Offset: offset}
	if s.detail != nil {
		ev.Name, ev.Version = s.detail(p)
	}
	return ev, true
}

// unnamed is the first byte that is not zero at either end, if no evidence has a name for
// that end. It reads all of both.
func (r *reader) unnamed(named []Evidence) []Evidence {
	var out []Evidence
	for _, end := range [][2]int64{{0, min(edge, r.size)}, {max(0, r.size-edge), r.size}} {
		inside := func(ev Evidence) bool { return ev.Offset >= end[0] && ev.Offset < end[1] }
		if first := r.firstByte(end[0], end[1]); first >= 0 && !slices.ContainsFunc(named, inside) {
			out = append(out, Evidence{Name: Unknown, Offset: first})
		}
	}
	return out
}

// firstByte is the offset of the first byte that is not zero, from start up to end; -1 if there is none.
// It reads on to the end: what cannot be read counts as well.
func (r *reader) firstByte(start, end int64) int64 {
	first := int64(-1)
	for at := start; at < end; at += chunk - at%chunk {
		b, _ := r.read(at, int(min(chunk-at%chunk, end-at)))
		if first < 0 && !bytes.Equal(b, r.zeros[:len(b)]) {
			first = at + int64(slices.IndexFunc(b, func(v byte) bool { return v != 0 }))
		}
	}
	return first
}

// metadata is how much at the start of ext4 and xfs is theirs alone.
const metadata = 8 * kib

// recognise tells a data volume, whole or unfinished. A whole one is a file system of a kind
// that Loam makes, with the Label, and nothing else that lays claim to the device; what is
// between its start and the last MiB is content, whatever it looks like (disk images are
// files, too). Of an unfinished one, nothing but the file system and its copies may be there.
func (c *Content) recognise(r *reader) {
	for _, kind := range []struct {
		name         string
		label, chars int64
	}{{"ext4", 1*kib + 0x78, 16}, {"xfs", 0x6c, 12}} {
		other := func(ev Evidence) bool {
			return ev.Name != kind.name && ev.Name != Unknown && ev.Name != marked
		}
		claims := func(ev Evidence) bool {
			return other(ev) && ev.Name != Unreadable && (ev.Offset < metadata || ev.Offset >= r.size-edge)
		}
		if c.has(marked) {
			c.Unfinished = c.Unfinished || !slices.ContainsFunc(c.Evidence, other)
			continue
		}
		label, _ := r.read(kind.label, int(kind.chars))
		if c.has(kind.name) && string(bytes.TrimRight(label, "\x00")) == Label && !slices.ContainsFunc(c.Evidence, claims) {
			c.FileSystem, c.Used = kind.name, r.used(kind.name)
		}
	}
}

// used is the size of the file system, by its superblock.
func (r *reader) used(fileSystem string) int64 {
	p := probe{r, 0}
	if fileSystem == "xfs" {
		return int64(uint64(p.be32(8))<<32|uint64(p.be32(12))) * int64(p.be32(4))
	}
	const superblock = 1 * kib
	return int64(uint64(p.le32(superblock+0x150))<<32|uint64(p.le32(superblock+4))) * (kib << (p.le32(superblock+0x18) & 7))
}
