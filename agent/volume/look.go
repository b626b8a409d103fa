package volume

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"strings"
)

// edge is how much at each end of a device must be zero.
const edge = mib

// maxFailed is how many reads of a device may fail before no more are tried: each can
// take the kernel half a minute, and one is enough not to call it empty.
const maxFailed = 3

// edges reads a device of size bytes, of which it keeps both ends.
type edges struct {
	r          io.ReaderAt
	size       int64
	head, tail []byte
	// failed is where reads have failed.
	failed []int64
}

func newEdges(r io.ReaderAt, size int64) *edges {
	e := &edges{r: r, size: size}
	n := int(min(size, edge))
	e.head, _ = e.read(0, n)
	e.tail, _ = e.read(size-int64(n), n)
	return e
}

// read returns n bytes at offset; ok is false if the device has no such bytes, or cannot read them.
// The result is not to be changed.
func (e *edges) read(offset int64, n int) (b []byte, ok bool) {
	if offset < 0 || offset > e.size-int64(n) {
		return nil, false
	}
	if end := offset + int64(n); end <= int64(len(e.head)) {
		return e.head[offset:end], true
	}
	if start := e.size - int64(len(e.tail)); offset >= start {
		return e.tail[offset-start:][:n], true
	}
	if len(e.failed) == maxFailed {
		return nil, false
	}
	b = make([]byte, n)
	if got, _ := e.r.ReadAt(b, offset); got < n {
		e.failed = append(e.failed, offset)
		return nil, false
	}
	return b, true
}

// Look reads what a device of size bytes holds, and nothing outside of it. What cannot be
// read is evidence, as is a device without any bytes.
func Look(r io.ReaderAt, size int64) Content {
	if size <= 0 {
		return Content{Evidence: []Evidence{{Name: Unreadable}}}
	}
	e := newEdges(r, size)
	var c Content
	if bytes.HasPrefix(e.head, []byte(FormatMark)) {
		c.Evidence = append(c.Evidence, Evidence{Name: marked})
	}
	c.Evidence = append(c.Evidence, e.signatures()...)
	c.Evidence = append(c.Evidence, e.unnamed(c.Evidence)...)
	for i, offset := range e.failed {
		near := func(other int64) bool { return offset >= other && offset < other+edge }
		if !slices.ContainsFunc(e.failed[:i], near) {
			c.Evidence = append(c.Evidence, Evidence{Name: Unreadable, Offset: offset})
		}
	}
	slices.SortStableFunc(c.Evidence, func(a, b Evidence) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), strings.Compare(a.Name, b.Name))
	})
	c.Evidence = slices.Compact(c.Evidence)
	c.recognise(e)
	return c
}

// signatures finds all there are.
func (e *edges) signatures() []Evidence {
	var found []Evidence
	for _, s := range allSignatures(e.size) {
		places := s.at
		if len(s.magic) >= 4 { // A weaker one would see one in what is left of old data.
			places = slices.Concat(places, shifted(fromStart(places), lostStart))
		}
		for _, p := range places {
			if ev, ok := e.match(s, p.in(e.size)); ok {
				found = append(found, ev)
			}
		}
	}
	return found
}

func allSignatures(size int64) []signature {
	return slices.Concat(partitionTables(), raids(), volumeManagers(), swaps(), fileSystems(), extCopies(),
		[]signature{{name: "xfs", magic: "XFSB", at: xfsCopies(size)}})
}

func fromStart(places []place) []place {
	return slices.DeleteFunc(slices.Clone(places), func(p place) bool { return p.align != 0 })
}

func (e *edges) match(s signature, offset int64) (Evidence, bool) {
	if offset < 0 || offset > e.size-max(1, int64(len(s.magic))) {
		return Evidence{}, false
	}
	if got, ok := e.read(offset, len(s.magic)); !ok || string(got) != s.magic {
		return Evidence{}, false
	}
	p := probe{e, offset}
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
// that end.
func (e *edges) unnamed(named []Evidence) []Evidence {
	var out []Evidence
	for _, end := range []struct {
		start int64
		b     []byte
	}{{0, e.head}, {e.size - int64(len(e.tail)), e.tail}} {
		first := len(end.b) - len(bytes.TrimLeft(end.b, "\x00"))
		inside := func(ev Evidence) bool { return ev.Offset >= end.start && ev.Offset < end.start+int64(len(end.b)) }
		if first < len(end.b) && !slices.ContainsFunc(named, inside) {
			out = append(out, Evidence{Name: Unknown, Offset: end.start + int64(first)})
		}
	}
	return out
}

// metadata is how much at the start of ext4 and xfs is theirs alone.
const metadata = 8 * kib

// recognise tells a data volume, whole or unfinished. A whole one is a file system of a kind
// that Loam makes, with the Label, and nothing else that lays claim to the device; what is
// between its start and the last MiB is content, whatever it looks like (disk images are
// files, too). Of an unfinished one, nothing but the file system and its copies may be there.
func (c *Content) recognise(e *edges) {
	for _, kind := range []struct {
		name         string
		label, chars int64
	}{{"ext4", 1*kib + 0x78, 16}, {"xfs", 0x6c, 12}} {
		other := func(ev Evidence) bool {
			return ev.Name != kind.name && ev.Name != Unknown && ev.Name != marked
		}
		claims := func(ev Evidence) bool {
			return other(ev) && ev.Name != Unreadable && (ev.Offset < metadata || ev.Offset >= e.size-edge)
		}
		if c.has(marked) {
			c.Unfinished = c.Unfinished || !slices.ContainsFunc(c.Evidence, other)
			continue
		}
		label, _ := e.read(kind.label, int(kind.chars))
		if c.has(kind.name) && string(bytes.TrimRight(label, "\x00")) == Label && !slices.ContainsFunc(c.Evidence, claims) {
			c.FileSystem = kind.name
		}
	}
}
