package fat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

const (
	// copySector is where the specification puts the copy of the boot sector.
	copySector = 6
	// minClusters makes a file system FAT32; with fewer it is FAT16 by
	// definition.
	minClusters = 65525
	// maxClusters bounds the memory for a FAT to 16 MiB. An ESP of 1 GiB with 8
	// KiB clusters has 131 072.
	maxClusters = 4 << 20
)

// geometry is where things are, in bytes from the start of the partition.
type geometry struct {
	sectorSize  int64 // as the boot sector has it
	clusterSize int64
	fats        int64 // the first FAT; the second follows
	fatSize     int64
	data        int64 // cluster 2
	clusters    uint32
	root        uint32 // first cluster of the root directory
	info        int64  // FSInfo sector, 0 if absent
	media       byte
	state       byte // bit 0: Linux mounted it and did not unmount it
}

// bootSectors are sector 0 and its copy, as they were read.
type bootSectors struct {
	// first and copied are what they say, nil if that is not possible.
	first, copied *geometry
	// firstErr and copyErr say why.
	firstErr, copyErr error
	// copyAt is the offset of the copy, 0 if it is not known.
	copyAt int64
	// copyUsed says why sector 0 is not used, but its copy.
	copyUsed error
}

// readBoot reads sector 0 and its copy. It is an error if neither is right.
func readBoot(d *disk, least int64) (bootSectors, error) {
	read := func(off int64) (*geometry, error) {
		b := make([]byte, sectorSize)
		if err := d.read(b, off); err != nil {
			return nil, err
		}
		g, err := decodeBoot(b, d.size, least)
		if err != nil {
			return nil, err
		}
		return &g, nil
	}

	var b bootSectors
	b.first, b.firstErr = read(0)

	sectors := []int64{512, 4096} // Without sector 0, it is not known which.
	if b.first != nil {
		sectors = []int64{b.first.sectorSize}
	}
	for _, sector := range sectors {
		var err error
		b.copied, err = read(copySector * sector)
		if b.copied != nil {
			b.copyAt = copySector * sector
			b.copyErr = nil
			break
		}
		b.copyErr = errors.Join(b.copyErr,
			fmt.Errorf("its copy at offset %d: %w", copySector*sector, err))
	}

	if b.first == nil && b.copied == nil {
		return b, fmt.Errorf("boot sector: %w; %w", b.firstErr, b.copyErr)
	}
	return b, nil
}

// choose makes the geometry of f what sector 0 says, as firmware does, unless
// that is not possible, or only what the copy says fits the tree. It reads the
// FATs.
func (b *bootSectors) choose(f *directories) error {
	switch {
	case b.first == nil:
		b.copyUsed = fmt.Errorf("boot sector: %w", b.firstErr)
		f.geometry = *b.copied
		return f.readFATs()
	case b.copied == nil || b.first.fits(*b.copied):
		f.geometry = *b.first
		return f.readFATs()
	}

	f.geometry = *b.first
	firstErr := f.fitsTree()
	if firstErr == nil {
		b.copyErr = errors.New("the copy of the boot sector says something else")
		return nil
	}

	f.geometry = *b.copied
	if err := f.fitsTree(); err != nil {
		return fmt.Errorf("the boot sector (%w) and its copy (%w) say different things", firstErr, err)
	}
	b.copyUsed = fmt.Errorf("boot sector: it says something else than its copy: %w", firstErr)
	return nil
}

// repair makes the boot sector as its copy is, or the copy as the boot
// sector is, if one of them is damaged. Firmware reads the boot sector only.
func (b *bootSectors) repair(d *disk, sector int64) error {
	from, to := int64(0), b.copyAt
	switch {
	case b.copyUsed != nil:
		from, to = b.copyAt, 0
	case b.copyErr == nil:
		return nil
	case to == 0:
		to = copySector * sector
	}

	content := make([]byte, sectorSize)
	err := d.read(content, from)
	if err == nil {
		err = d.write(content, to)
	}
	if err == nil {
		err = d.sync()
	}
	if err != nil {
		return fmt.Errorf("repair the boot sector: %w", err)
	}

	b.copyUsed = nil
	b.copyErr = nil
	return nil
}

// decodeBoot checks the boot sector b of a partition of size bytes, with at
// least so many clusters. Errors name the field and its offset.
func decodeBoot(b []byte, size, least int64) (geometry, error) {
	le := binary.LittleEndian
	sector := int64(le.Uint16(b[11:]))
	perCluster := b[13]
	reserved := le.Uint16(b[14:])
	sectors := le.Uint32(b[32:])
	perFAT := le.Uint32(b[36:])

	for _, f := range []struct {
		ok    bool
		field string
		at    int
		value any
		want  string
	}{
		{b[510] == 0x55 && b[511] == 0xaa, "signature", 510, b[510:512], "55 aa"},
		{sector == 512 || sector == 4096, "bytes per sector", 11, sector, "512 or 4096"},
		{bits.OnesCount8(perCluster) == 1, "sectors per cluster", 13, perCluster, "a power of two"},
		{reserved > copySector, "reserved sectors", 14, reserved, "more than 6"},
		{b[16] == 2, "number of FATs", 16, b[16], "2"},
		{b[21] == 0xf0 || b[21] >= 0xf8, "media", 21, b[21], "240, or 248 and more"},
		{
			le.Uint16(b[17:]) == 0 && le.Uint16(b[19:]) == 0 && le.Uint16(b[22:]) == 0,
			"FAT16's sizes",
			17,
			b[17:24],
			"zeros: FAT32",
		},
		{
			int64(sectors)*sector <= size,
			"sectors",
			32,
			sectors,
			fmt.Sprintf("at most the partition's %d bytes", size),
		},
		{b[40]&0x80 == 0, "flags", 40, b[40], "bit 7 clear: both FATs in use"},
		{le.Uint16(b[42:]) == 0, "version", 42, le.Uint16(b[42:]), "0"},
	} {
		if !f.ok {
			return geometry{}, fmt.Errorf("%s (offset %d): %v, want %s",
				f.field, f.at, f.value, f.want)
		}
	}

	g := geometry{
		sectorSize:  sector,
		clusterSize: int64(perCluster) * sector,
		fats:        int64(reserved) * sector,
		fatSize:     int64(perFAT) * sector,
		root:        le.Uint32(b[44:]),
		media:       b[21],
		state:       b[65],
	}

	g.data = g.fats + 2*g.fatSize
	clusters := max(int64(sectors)*sector-g.data, 0) / g.clusterSize
	g.clusters = uint32(clusters)

	switch {
	case clusters < least || clusters > maxClusters:
		return geometry{}, fmt.Errorf("sectors (offset 32): %d make %d clusters, want %d to %d",
			sectors, clusters, least, maxClusters)
	case g.fatBytes() > g.fatSize:
		return geometry{}, fmt.Errorf("sectors per FAT (offset 36): %d, too few for %d clusters",
			perFAT, clusters)
	case !g.valid(g.root):
		return geometry{}, fmt.Errorf("root directory (offset 44): cluster %d, want 2 to %d",
			g.root, g.last())
	}

	if info := le.Uint16(b[48:]); info < reserved {
		g.info = int64(info) * sector
	}

	return g, nil
}

// fits reports whether another boot sector describes the same file system.
func (g geometry) fits(other geometry) bool {
	g.state = other.state
	return g == other
}

// last is the number of the last cluster; the first is 2.
func (g geometry) last() uint32 { return g.clusters + 1 }

func (g geometry) valid(cluster uint32) bool { return cluster >= 2 && cluster <= g.last() }

// offset of a cluster.
func (g geometry) offset(cluster uint32) int64 { return g.data + int64(cluster-2)*g.clusterSize }

// fatAt is the start of FAT 0 or 1.
func (g geometry) fatAt(n int64) int64 { return g.fats + n*g.fatSize }

// fatBytes is the size of the part of a FAT that is in use, rounded up to
// sectors.
func (g geometry) fatBytes() int64 {
	return (4*(int64(g.clusters)+2) + sectorSize - 1) / sectorSize * sectorSize
}

// need is the clusters that size bytes take.
func (g geometry) need(size int64) int { return int((size + g.clusterSize - 1) / g.clusterSize) }
