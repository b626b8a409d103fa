package volume

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/loam-os/loam/partitions/ext4"
	"github.com/loam-os/loam/partitions/luks"
)

// edge is how many bytes at each end of a device must be zero.
const edge = mib

// ReadContent reads what a device of size bytes holds, and nothing outside it.
// A part that cannot be read is evidence, and so is a device without any bytes.
func ReadContent(device io.ReaderAt, size int64) Content {
	if size <= 0 {
		return Content{Evidence: []Evidence{{Name: Unreadable}}}
	}

	r := newReader(device, size)
	var c Content
	if p := markedFor(r); p != nil {
		c.Volume = p.Label
		c.Evidence = append(c.Evidence, Evidence{Name: marked})
	}

	start, _ := r.read(0, len(ext4.FormatMark))
	c.Unformatted = string(start) == ext4.FormatMark

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
	c.findContainer(io.NewSectionReader(device, 0, size))
	return c
}

// markedFor returns what a device is being formatted for, nil if it is not.
func markedFor(r *reader) *Purpose {
	return purposeOf(func(p *Purpose) bool {
		start, ok := r.read(0, len(p.Mark))
		return ok && string(start) == p.Mark
	})
}

// findContainer finds an encrypted volume.
func (c *Content) findContainer(device io.ReaderAt) {
	if !c.has("crypto_LUKS") || c.has(marked) {
		return
	}
	h, err := luks.Read(device)
	if err != nil || labelled(h.Label) == nil {
		return
	}
	c.Volume = h.Label
	c.Container = h.UUID.String()
}

// signatures returns evidence for all signatures on the device.
func (r *reader) signatures() []Evidence {
	var found []Evidence
	for _, s := range append(slices.Clip(known()),
		signature{name: "xfs", magic: "XFSB", at: xfsCopies(r.size)}) {
		for _, p := range s.at {
			offsets := []int64{p.in(r.size), -1}
			if p.align == 0 && len(s.magic) >= 4 {
				// A weaker signature would match remains of old data.
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

// known are all signatures, except those whose places depend on more than the
// end of the device.
var known = sync.OnceValue(func() []signature {
	return slices.Concat(partitionTables(), raids(), volumeManagers(), swaps(),
		fileSystems(), extCopies())
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

// unnamed returns the first byte at either end that is not zero, if no evidence
// explains that end. It reads all of both ends.
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

// firstByte returns the offset of the first byte between start and end that is
// not zero, -1 if all are. It reads to the end nevertheless, because parts that
// cannot be read count as well.
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
