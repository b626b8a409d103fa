package volume

import (
	"bytes"
	"slices"
)

// metadata is how much at the start of ext4 and xfs is theirs alone.
const metadata = 8 * kib

// recognise tells a data volume, whole or unfinished. A whole one is a file
// system of a kind that Loam makes, with the Label, and nothing else that lays
// claim to the device; what is between its start and the last MiB is content,
// whatever it looks like (disk images are files, too). Of an unfinished one,
// nothing but the file system and its copies may be there, and its superblock
// has the Label, too, if it is there.
func (c *Content) recognise(r *reader) {
	for _, kind := range []struct {
		name         string
		label, chars int64
	}{{"ext4", 1*kib + 0x78, 16}, {"xfs", 0x6c, 12}} {
		other := func(ev Evidence) bool {
			return ev.Name != kind.name && ev.Name != Unknown && ev.Name != marked
		}

		claims := func(ev Evidence) bool {
			return other(ev) && ev.Name != Unreadable &&
				(ev.Offset < metadata || ev.Offset >= r.size-edge)
		}

		text, _ := r.read(kind.label, int(kind.chars))
		label := string(bytes.TrimRight(text, "\x00"))
		switch {
		case c.has(marked):
			c.Unfinished = c.Unfinished || (label == "" || label == Label) &&
				!slices.ContainsFunc(c.Evidence, other)
		case c.has(kind.name) && label == Label && !slices.ContainsFunc(c.Evidence, claims):
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
	return int64(uint64(p.le32(superblock+0x150))<<32|uint64(p.le32(superblock+4))) *
		(kib << (p.le32(superblock+0x18) & 7))
}
