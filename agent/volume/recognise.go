package volume

import (
	"bytes"
	"slices"
)

// metadata is how many bytes at the start of ext4 and XFS hold no content of
// files.
const metadata = 8 * kib

// recognise finds a volume, complete or unfinished. A complete volume is a file
// system of a type that Loam makes, with the label of a purpose, and no other
// signature may claim the device. Between its metadata and the last MiB is content,
// whatever it looks like (disk images are files, too). An unfinished volume has
// nothing but the file system and its copies. Its superblock, if already
// written, has the label that belongs to the mark. An encrypted one may have the second header of its
// container, whose first one replaces the mark.
func (c *Content) recognise(r *reader) {
	for _, kind := range []struct {
		name         string
		label, chars int64
	}{{"ext4", 1*kib + 0x78, 16}, {"xfs", 0x6c, 12}} {
		other := func(ev Evidence) bool {
			return ev.Name != kind.name && ev.Name != Unknown && ev.Name != marked &&
				!(c.has(marked) && ev.Name == "crypto_LUKS" && ev.Offset > 0)
		}

		claims := func(ev Evidence) bool {
			return other(ev) && ev.Name != Unreadable &&
				(ev.Offset < metadata || ev.Offset >= r.size-edge)
		}

		text, _ := r.read(kind.label, int(kind.chars))
		label := string(bytes.TrimRight(text, "\x00"))
		switch {
		case c.has(marked):
			c.Unfinished = c.Unfinished || ((label == "" || label == c.Volume) &&
				!slices.ContainsFunc(c.Evidence, other))
		case c.has(kind.name) && labelled(label) != nil && !slices.ContainsFunc(c.Evidence, claims):
			c.Volume = label
			c.FileSystem = kind.name
			c.Used = r.used(kind.name)
		}
	}
}

// used returns the size of the file system according to its superblock.
func (r *reader) used(fileSystem string) int64 {
	p := probe{r, 0}
	if fileSystem == "xfs" {
		return int64(uint64(p.be32(8))<<32|uint64(p.be32(12))) * int64(p.be32(4))
	}
	const superblock = 1 * kib
	return int64(uint64(p.le32(superblock+0x150))<<32|uint64(p.le32(superblock+4))) *
		(kib << (p.le32(superblock+0x18) & 7))
}
