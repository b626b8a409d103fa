package esp

import (
	"encoding/binary"
	"fmt"
)

// geometry is where things are in the file system.
type geometry struct {
	sector     uint32 // bytes
	sectors    uint32 // of the file system
	fatSectors uint32 // of each of the two FATs
	clusters   uint32 // of data; their numbers start at 2
}

// newGeometry divides size bytes into reserved sectors, two FATs and clusters.
// reserved and fatAlign align the data to a cluster.
func newGeometry(size int64, sectorSize int) (geometry, error) {
	if sectorSize != 512 && sectorSize != 4096 {
		return geometry{}, fmt.Errorf("sector size %d: want 512 or 4096", sectorSize)
	}

	if size%int64(sectorSize) != 0 || size <= 0 || size > maxSize {
		return geometry{}, fmt.Errorf("size %d: want whole sectors of %d bytes, at most %d bytes",
			size, sectorSize, int64(maxSize))
	}

	g := geometry{sector: uint32(sectorSize), sectors: uint32(size / int64(sectorSize))}
	perCluster := clusterSize / g.sector
	upper := g.sectors/perCluster + 2 // FAT entries are enough for a disk of clusters only
	g.fatSectors = (upper*4/g.sector + fatAlign) / fatAlign * fatAlign
	if data := int64(g.sectors) - reserved - 2*int64(g.fatSectors); data > 0 {
		g.clusters = uint32(data / int64(perCluster))
	}

	if g.clusters < minClusters {
		return geometry{}, fmt.Errorf("size %d: %d clusters of %d bytes, FAT32 has at least %d",
			size, g.clusters, clusterSize, minClusters)
	}

	return g, nil
}

// fat is the offset of FAT 0 or 1 in bytes; the data are where 2 would be.
func (g geometry) fat(n int64) int64 { return (reserved + n*int64(g.fatSectors)) * int64(g.sector) }

// offset of a cluster in bytes.
func (g geometry) offset(cluster uint32) int64 { return g.fat(2) + int64(cluster-2)*clusterSize }

// bootSectors makes the boot sector, the FSInfo sector, and their copies in
// sectors 6 and 7.
func (g geometry) bootSectors(volumeID uint32, fat []uint32) []byte {
	b := make([]byte, reserved*g.sector)
	le := binary.LittleEndian
	copy(b, "\xeb\x58\x90MSWIN4.1") // jump, and the OEM name that every driver accepts
	le.PutUint16(b[11:], uint16(g.sector))
	b[13] = byte(clusterSize / g.sector)
	le.PutUint16(b[14:], reserved)
	b[16] = 2    // FATs
	b[21] = 0xf8 // a fixed disk
	le.PutUint16(b[24:], 63)
	le.PutUint16(b[26:], 255) // sectors per track and heads: not used
	le.PutUint32(b[32:], g.sectors)
	le.PutUint32(b[36:], g.fatSectors)
	le.PutUint32(b[44:], 2) // first cluster of the root directory
	le.PutUint16(b[48:], 1) // FSInfo sector
	le.PutUint16(b[50:], 6) // copy of the boot sector
	b[64] = 0x80
	b[66] = 0x29
	le.PutUint32(b[67:], volumeID)
	copy(b[71:], "NO NAME    FAT32   ")
	info := b[g.sector:]
	copy(info, "RRaA")
	copy(info[484:], "rrAa")
	le.PutUint32(info[488:], g.clusters-uint32(len(fat)-2)) // free clusters
	le.PutUint32(info[492:], uint32(len(fat)))              // the first of them

	for _, sector := range [][]byte{b, info} {
		// in sectors of 4096 bytes, too
		sector[510] = 0x55
		sector[511] = 0xaa
	}

	copy(b[6*g.sector:], b[:2*g.sector])
	return b
}

// encodeFAT makes the bytes of a FAT, from its start to the last used entry.
func encodeFAT(fat []uint32) []byte {
	b := make([]byte, 4*len(fat))
	for i, next := range fat {
		binary.LittleEndian.PutUint32(b[4*i:], next)
	}
	return b
}
